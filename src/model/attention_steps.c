/* Rotation and attention of fused queries, keys and values. */
#include "model/steps.h"
#include <math.h>

tensor heads_shape(const rank_extents *n)
{
    return tensor_3d(NULL, n->type, n->positions, n->rows, n->heads * n->head_dim);
}

tensor fused_heads_shape(const rank_extents *n)
{
    return tensor_3d(NULL, n->type, n->positions, n->rows, (n->heads + 2 * n->kv_heads) * n->head_dim);
}

tensor head_statistics_shape(const rank_extents *n) { return tensor_3d(NULL, F32, n->rows, n->heads, n->positions); }

/* [s, b, heads d] as [s, b, heads, d] */
static tensor by_heads(const step_call *c, tensor x)
{
    int64_t d = c->work->extents.head_dim;
    return tensor_4d(x.data, x.type, x.dim[0], x.dim[1], x.dim[2] / d, d);
}

typedef struct {
    tensor q, k, v, rotated; /* [s, b, heads, d] */
} attention_views;

static attention_views views(const step_call *c, tensor fused)
{
    int64_t heads = c->work->extents.heads, kv_heads = c->work->extents.kv_heads;
    tensor x = by_heads(c, fused);
    return (attention_views){ .q = tensor_slice(x, 2, 0, heads),
                              .k = tensor_slice(x, 2, heads, kv_heads),
                              .v = tensor_slice(x, 2, heads + kv_heads, kv_heads),
                              .rotated = tensor_slice(x, 2, 0, heads + kv_heads) };
}

static void rotate(step_call *c)
{
    submit(c->work->queues.compute, c->step->name, rope_forward_op(views(c, step_made(c, 0)).rotated, c->work->rope));
}

static void rotate_back(step_call *c)
{
    submit(c->work->queues.compute, c->step->backward_name,
           rope_backward_op(views(c, step_d_made(c, 0)).rotated, c->work->rope));
}

enum { OUT, LOG_SUM_EXP };

static attention_args causal(const step_call *c)
{
    return (attention_args){ .scale = (float)(1.0 / sqrt((double)c->work->extents.head_dim)), .causal = true };
}

static void forward(step_call *c)
{
    attention_views x = views(c, step_read(c, 0));
    ring_attention_forward(
        &c->work->ring,
        (attention_forward_operands){
            .q = x.q, .k = x.k, .v = x.v, .out = by_heads(c, step_made(c, OUT)), .lse = step_made(c, LOG_SUM_EXP) },
        causal(c));
}

static void backward(step_call *c)
{
    attention_views x = views(c, step_read(c, 0)), d = views(c, step_d_read(c, 0));
    ring_attention_backward(&c->work->ring,
                            (attention_backward_operands){ .q = x.q,
                                                           .k = x.k,
                                                           .v = x.v,
                                                           .out = by_heads(c, step_made(c, OUT)),
                                                           .lse = step_made(c, LOG_SUM_EXP),
                                                           .d_out = by_heads(c, step_d_made(c, OUT)),
                                                           .dq = d.q,
                                                           .dk = d.k,
                                                           .dv = d.v,
                                                           .dq_access = WRITE,
                                                           .dkv_access = WRITE },
                            causal(c));
}

const step_kind rotation = { .forward = rotate, .backward = rotate_back };
const step_kind causal_attention = {
    .forward = forward, .backward = backward, .saves_reads = 1u, .saves_makes = 1u << OUT | 1u << LOG_SUM_EXP
};
