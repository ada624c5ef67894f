/* Rotation and attention of fused queries, keys and values. */
#include "base/memory.h"
#include "model/step_call.h"
#include "parallel/zigzag.h"
#include <math.h>

tensor heads_shape(const rank_extents *n)
{
    return tensor_3d(NULL, n->type, n->positions, n->batch, n->heads * n->head_dim);
}

tensor fused_heads_shape(const rank_extents *n)
{
    return tensor_3d(NULL, n->type, n->positions, n->batch, (n->heads + 2 * n->kv_heads) * n->head_dim);
}

tensor head_statistics_shape(const rank_extents *n) { return tensor_3d(NULL, F32, n->batch, n->heads, n->positions); }

/* Returns [s, b, heads d] as [s, b, heads, d]. */
static tensor by_heads(const step_call *c, tensor x)
{
    int64_t d = c->work->extents.head_dim;
    return tensor_4d(x.data, x.type, x.dim[0], x.dim[1], x.dim[2] / d, d);
}

typedef struct {
    tensor q, kv; /* [s, b, heads, d] */
} attention_views;

static attention_views views(const step_call *c, tensor fused)
{
    int64_t heads = c->work->extents.heads, kv_heads = c->work->extents.kv_heads;
    tensor x = by_heads(c, fused);
    return (attention_views){ .q = tensor_slice(x, 2, 0, heads), .kv = tensor_slice(x, 2, heads, 2 * kv_heads) };
}

/* Returns the rotated part of each head of queries and keys, from its start: as wide as the table's pairs. */
static tensor rotated(const step_call *c, tensor fused)
{
    tensor both = tensor_slice(by_heads(c, fused), 2, 0, c->work->extents.heads + c->work->extents.kv_heads);
    return tensor_slice(both, 3, 0, 2 * c->work->rope.dim[1]);
}

static int64_t rotated_width(const model_shape *m) { return (int64_t)((double)m->head_dim * m->rope_fraction); }

/* ---- rotary position embedding (Su et al. 2021), with the scaling of Llama 3.1 ---- */

enum { SCALING_FACTOR = 8, SCALING_LOW = 1, SCALING_HIGH = 4, SCALING_CONTEXT = 8192 };

static double scaled_frequency(double f)
{
    double turns = SCALING_CONTEXT * f / (2.0 * 3.14159265358979323846); /* turns over the old context */
    double t = (turns - SCALING_LOW) / (SCALING_HIGH - SCALING_LOW);
    if (turns < SCALING_LOW) return f / SCALING_FACTOR;
    return turns > SCALING_HIGH ? f : (1.0 - t) * f / SCALING_FACTOR + t * f;
}

/* Writes cosine and sine of position * frequency for the local positions, computed in double and rounded once.
 * Frequencies are base^(-2i/width); with rope_scaling as in Llama 3.1 (src/DEFINITIONS.md). */
static void write_rotations(const model_shape *m, zigzag positions, float *table)
{
    int64_t width = rotated_width(m), half = width / 2;
    for (int64_t i = 0; i < half; i++) {
        double f = pow(m->rope_base, -2.0 * (double)i / (double)width);
        if (m->rope_scaling) f = scaled_frequency(f);
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
    w->rope = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, F32, n->positions, rotated_width(m) / 2, 2));
    if (machine_on_paper(w->queues.machine)) return;
    float *table = allocate(1, tensor_span(&w->rope), "the table of rotations");
    write_rotations(m, zigzag_of(w->context[0], m->sequence), table);
    machine_upload(w->queues.machine, w->rope, table);
    free(table);
}

static void rotate(step_call *c)
{
    submit(c->work->queues.compute, c->step->name, rope_forward_op(rotated(c, step_made(c, 0)), c->work->rope));
}

static void rotate_back(step_call *c)
{
    submit(c->work->queues.compute, c->step->backward_name,
           encode_rotated_op(rope_backward_op(rotated(c, step_d_made(c, 0)), c->work->rope),
                             by_heads(c, step_d_made(c, 0)), fp8_read_encoding(c, 0)));
}

const step_kind rotation = { .open = open_rotations, .forward = rotate, .backward = rotate_back, .encodes = true };

/* ---- attention ---- */

enum { OUT, LOG_SUM_EXP };

static void open_attention(workspace *w, arena *a)
{
    const rank_extents *n = &w->extents;
    bool narrow = w->given->context_gradients == CONTEXT_GRADIENTS_BF16;
    tensor kv = tensor_4d(NULL, n->type, n->positions, n->batch, 2 * n->kv_heads, n->head_dim);
    context_attention_open(&w->attention, &w->queues, w->context, kv, narrow, a);
    if (w->given->imitated.context) context_attention_imitate(&w->attention, w->given->imitated.context, kv, narrow, a);
}

static attention_operands attention_of(const step_call *c)
{
    attention_views x = views(c, step_read(c, 0));
    return (attention_operands){ .q = x.q,
                                 .kv = x.kv,
                                 .out = by_heads(c, step_made(c, OUT)),
                                 .lse = step_made(c, LOG_SUM_EXP),
                                 .scale = (float)(1.0 / sqrt((double)c->work->extents.head_dim)) };
}

static void forward(step_call *c)
{
    attention_operands o = attention_of(c);
    context_attention_gather(&c->work->attention, o.kv);
    context_attention_forward(&c->work->attention, &o);
}

/* If forward ran again, keys and values are already gathered. */
static void before_backward(step_call *c)
{
    bool already_gathered = c->work->again >> (c->step - c->work->family->layer.step) & 1u;
    context_attention_clear(&c->work->attention);
    if (!already_gathered) context_attention_gather(&c->work->attention, views(c, step_read(c, 0)).kv);
}

static void backward(step_call *c)
{
    attention_operands o = attention_of(c);
    attention_views d = views(c, step_d_read(c, 0));
    o.d_out = by_heads(c, step_d_made(c, OUT));
    o.dq = d.q;
    o.d_kv = d.kv;
    context_attention_backward(&c->work->attention, &o);
}

const step_kind causal_attention = { .open = open_attention,
                                     .forward = forward,
                                     .backward = backward,
                                     .before_backward = before_backward,
                                     .saves_reads = 1u,
                                     .saves_makes = 1u << OUT | 1u << LOG_SUM_EXP };
