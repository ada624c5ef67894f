/* Gradients: reduction, norm, clip factor. */
#include "train/gradient.h"
#include "parallel/origin.h"

/* Every tensor rank has a partial sum of a replicated row: summed in FP32, rounded once; in place where the gradient is
 * FP32. */
static void sum_replicated(trainer *t, bucket *b)
{
    tensor_all_reduce(&t->queues, "gain_gradients", &t->mesh->axis[AXIS_TENSOR], b->partial);
    if (b->partial.data != b->gradient.data) copy(t->queues.compute, "gain_gradients", b->gradient, WRITE, b->partial);
}

void gradient_reduce(trainer *t, bucket *b)
{
    group *g = &t->mesh->gradient;
    origin before = origin_layer(t->machine, NO_LAYER);
    origin_phase(t->machine, PHASE_GRADIENT);
    if (b->replicated) sum_replicated(t, b);
    b->reduced = queue_mark(t->queues.compute);
    if (g->size > 1) {
        queue_follow(t->queues.gradient, t->queues.compute);
        b->reduced = t->given->sharding == SHARDING_OPTIMIZER
                         ? reduce_scatter(t->queues.gradient, "gradients", g, tensor_none(), b->gradient)
                         : all_reduce(t->queues.gradient, "gradients", g, b->gradient);
        queues_wait_unless_overlap(&t->queues, b->reduced);
    }
    origin_restore(t->machine, before);
}

tensor gradient_shard(const bucket *b) { return tensor_slice(b->gradient, 0, b->shard_first, b->shard_elements); }

/* Ranks that together hold each gradient element once: with sharded gradients all of them. */
static group *norm_group(trainer *t)
{
    return t->given->sharding == SHARDING_OPTIMIZER ? &t->mesh->all : &t->mesh->model;
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
        if (!b->replicated || t->mesh->at[AXIS_TENSOR] == 0) square_sum(q, "norm", gradient_shard(b), t->squares);
    }
    sum_over(t, "norm", norm_group(t), t->squares);
    sum(q, "loss", t->loss, WRITE, t->stage.loss); /* zero but on the last stage */
    sum_over(t, "loss", &t->mesh->gradient, t->loss);
    sum_over(t, "loss", &t->mesh->axis[AXIS_PIPELINE], t->loss);
    step_clip_args args = { t->given->optimizer.clip,
                            (double)t->given->global_batch * (double)t->given->model.sequence };
    step_clip(q, "norm", t->squares, t->loss, t->stage.scalars, &args);
}
