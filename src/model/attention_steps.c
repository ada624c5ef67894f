/* Rotation and attention of fused queries, keys and values. */
#include "base/fail.h"
#include "model/step_call.h"
#include "parallel/zigzag.h"
#include <math.h>
#include <stdlib.h>

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

/* ---- rotary position embedding (Su et al. 2021), with the scaling of Llama 3.1 ---- */

enum { SCALING_FACTOR = 8, SCALING_LOW = 1, SCALING_HIGH = 4, SCALING_CONTEXT = 8192 };

static double scaled(double f)
{
    double turns = SCALING_CONTEXT * f / (2.0 * 3.14159265358979323846); /* over the old context */
    double t = (turns - SCALING_LOW) / (SCALING_HIGH - SCALING_LOW);
    if (turns < SCALING_LOW) return f / SCALING_FACTOR;
    return turns > SCALING_HIGH ? f : (1.0 - t) * f / SCALING_FACTOR + t * f;
}

/* Cosine and sine of position * frequency for the local positions, computed in double and rounded once. Frequencies
 * base^(-2i/d); with rope_scaling as Llama 3.1 (src/DEFINITIONS.md). */
static void write_rotations(const model_shape *m, zigzag positions, float *table)
{
    int64_t half = m->head_dim / 2;
    for (int64_t i = 0; i < half; i++) {
        double f = pow(m->rope_base, -2.0 * (double)i / (double)m->head_dim);
        if (m->rope_scaling) f = scaled(f);
        for (int64_t p = 0; p < positions.length; p++) {
            float *pair = table + (p * half + i) * 2;
            double angle = (double)zigzag_position(&positions, p) * f;
            pair[0] = (float)cos(angle);
            pair[1] = (float)sin(angle);
        }
    }
}

static void open_rotations(workspace *w, arena *a)
{
    const rank_extents *n = &w->extents;
    const model_shape *m = &w->given->model;
    w->rope = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, F32, n->positions, n->head_dim / 2, 2));
    float *table = malloc(tensor_span(&w->rope));
    if (!table) FAIL("no memory for the table of rotations");
    write_rotations(m, zigzag_of(w->context, m->sequence), table);
    machine_upload(w->queues.machine, w->rope, table);
    free(table);
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

const step_kind rotation = { .open = open_rotations, .forward = rotate, .backward = rotate_back };

/* ---- attention ---- */

enum { OUT, LOG_SUM_EXP };

/* Heads as operands of its kernels. */
static tensor heads(const rank_extents *n, int64_t count)
{
    return tensor_4d(NULL, n->type, n->positions, n->rows, count, n->head_dim);
}

static void open_ring(workspace *w, arena *a)
{
    const rank_extents *n = &w->extents;
    ring_open(&w->ring, &w->queues, w->context, heads(n, n->heads), heads(n, n->kv_heads), a);
}

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

const step_kind causal_attention = { .open = open_ring,
                                     .forward = forward,
                                     .backward = backward,
                                     .saves_reads = 1u,
                                     .saves_makes = 1u << OUT | 1u << LOG_SUM_EXP };
