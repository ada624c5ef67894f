/* Gradients: reduction, norm, clip factor. */
#include "train/gradient.h"
#include "parallel/origin.h"

/* Partial sums are added up in their own format and rounded once; in place where that is the gradient's. */
static void sum_partial(trainer *t, bucket *b)
{
    tensor_all_reduce(&t->queues, "gain_gradients", b->holders, b->partial);
    if (b->partial.data != b->gradient.data) copy(t->queues.compute, "gain_gradients", b->gradient, WRITE, b->partial);
}

void gradient_reduce(trainer *t, bucket *b)
{
    origin before = origin_layer(t->machine, PHASE_GRADIENT, NO_LAYER);
    if (b->holders) sum_partial(t, b);
    b->reduced = queue_mark(t->queues.compute);
    if (b->sum->size > 1) {
        queue_follow(t->queues.gradient, t->queues.compute);
        b->reduced = b->owners ? reduce_scatter(t->queues.gradient, "gradients", b->sum, tensor_none(), b->gradient)
                               : all_reduce(t->queues.gradient, "gradients", b->sum, b->gradient);
        queues_wait_unless_overlap(&t->queues, b->reduced);
    }
    origin_restore(t->machine, before);
}

static void sum_over(trainer *t, const char *name, group *g, tensor x)
{
    if (g->size == 1) return;
    queue_follow(t->queues.gradient, t->queues.compute);
    queue_wait(t->queues.compute, all_reduce(t->queues.gradient, name, g, x));
}

void gradient_norm(trainer *t)
{
    queue *q = t->queues.compute;
    param_table *p = &t->stage.params;
    fill(q, "norm", t->squares, 0.0);
    for (int i = p->bucket_count - 1; i >= 0; i--) { /* as backward completed them */
        bucket *b = &p->buckets[i];
        queue_wait(q, b->reduced);
        if (bucket_counts(b)) square_sum(q, "norm", gradient_shard(b), t->squares);
    }
    sum_over(t, "norm", p->norm, t->squares);
    sum(q, "loss", t->loss, WRITE, t->stage.loss); /* zero but on the last stage */
    sum_over(t, "loss", &t->mesh->gradient, t->loss);
    sum_over(t, "loss", &t->mesh->axis[AXIS_PIPELINE], t->loss);
    step_clip_args args = { t->given->optimizer.clip,
                            (double)t->given->global_batch * (double)t->given->model.sequence };
    step_clip(q, "norm", t->squares, t->loss, t->stage.scalars, &args);
}
