/* Gradients as they become done: summed over ranks on their own queue while backward goes on; then their norm. */
#include "parallel/origin.h"
#include "train/trainer.h"

/* Partial sums are added up in their own format and rounded once; in place where that is the gradient's. */
static void sum_partial(trainer *t, bucket *b)
{
    queues_all_reduce(&t->queues, t->queues.tensor, "gain_gradients", b->holders, b->partial);
    if (b->partial.data != b->gradient.data)
        submit(t->queues.compute, "gain_gradients", copy_op(b->gradient, WRITE, b->partial));
}

void gradient_reduce(void *listener, bucket *b, queue *q)
{
    trainer *t = listener;
    origin before = origin_layer(t->machine, PHASE_GRADIENT, NO_LAYER);
    if (b->holders) sum_partial(t, b);
    b->reduced = queue_mark(q);
    if (b->sum->size > 1) {
        queue_follow(t->queues.gradient, q);
        b->reduced = b->owners ? submit(t->queues.gradient, "gradients", reduce_scatter_op(b->sum, b->gradient))
                               : submit(t->queues.gradient, "gradients", all_reduce_op(b->sum, b->gradient));
        queues_wait_unless_overlap(&t->queues, b->reduced);
    }
    origin_restore(t->machine, before);
}

void gradient_norm(trainer *t)
{
    const queues *l = &t->queues;
    queue *q = l->compute;
    param_table *p = &t->stage.params;
    submit(q, "norm", fill_op(t->squares, 0.0));
    for (int i = p->bucket_count - 1; i >= 0; i--) { /* as backward completed them */
        bucket *b = &p->buckets[i];
        queue_wait(q, b->reduced);
        if (p->norm == &t->mesh->all ? bucket_first_owner(b) : bucket_counts(b))
            submit(q, "norm", square_sum_op(gradient_shard(b), t->squares));
    }
    queues_all_reduce(l, l->gradient, "norm", p->norm, t->squares);
    submit(q, "loss", sum_op(t->loss, WRITE, t->stage.loss)); /* zero but on the last stage */
    queues_all_reduce(l, l->gradient, "loss", &t->mesh->gradient, t->loss);
    queues_all_reduce(l, l->gradient, "loss", &t->mesh->axis[AXIS_PIPELINE], t->loss);
    step_clip_args args = { t->given->optimizer.clip,
                            (double)t->given->global_batch * (double)t->given->model.sequence };
    submit(q, "norm", step_clip_op(t->squares, t->loss, t->stage.scalars, &args));
}
