/* Model shapes by size, and what follows from them. */
#include "plan/model/shapes.h"
#include <math.h>

const mesh_layout one_rank_layout = {
    .degree = { 1, 1, 1, 1, 1 }, .expert = 1, .chunks_per_stage = 1, .ranks = 1, .copies = 1
};

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

void shape_complete(model_shape *m, int tensor)
{
    int64_t multiple = 128 * (int64_t)tensor;
    m->head_dim = m->hidden / m->heads;
    m->padded_vocabulary = (m->vocabulary + multiple - 1) / multiple * multiple;
    m->output_init_std = m->init == INIT_FAN_IN ? m->init_std : m->init_std / sqrt(2.0 * (double)m->layers);
}

double shape_init_std(const workload_row *w, int64_t hidden)
{
    if (w->full.init == INIT_FAN_IN) return w->full.init_std;
    return w->full.init_std * sqrt((double)w->full.hidden / (double)hidden);
}

int shape_slots(int64_t layers, const mesh_layout *layout)
{
    int64_t chunks = (int64_t)layout->degree[AXIS_PIPELINE] * layout->chunks_per_stage;
    if (layout->degree[AXIS_PIPELINE] == 1) return 0;
    if ((layers + 2) % chunks == 0) return 2;
    return layers % chunks == 0 ? 0 : -1;
}

int strips_within(int most, int64_t positions, int tensor)
{
    int strips = tensor > 1 ? most : 1;
    while (strips > 1 && positions % ((int64_t)strips * tensor)) strips--;
    return strips;
}

/* Returns the smallest L >= 2 with L + slots divisible by the chunks. */
static int64_t check_layers(const mesh_layout *layout, int slots)
{
    int64_t chunks = (int64_t)layout->degree[AXIS_PIPELINE] * layout->chunks_per_stage;
    return (2 + slots + chunks - 1) / chunks * chunks - slots;
}

/* Largest standard deviation of a product with a normalized row. With 2.56 as in the 405B, attention scores have 6.6,
 * and gradients of BF16 and FP32 differ by 0.4 on one rank, more than many faults cause (src/DECISIONS.md). */
static const double check_product_std = 0.81;

model_shape shape_check(const workload_row *w, const mesh_layout *layout, int strips, int slots)
{
    int64_t pieces = 2 * strips, tensor = layout->degree[AXIS_TENSOR], context = layout->degree[AXIS_CONTEXT];
    model_shape m = w->full;
    m.kv_heads = larger(2, tensor);
    m.heads = m.heads == w->full.kv_heads ? m.kv_heads : 2 * m.kv_heads;
    m.hidden = 16 * m.heads;
    if (m.experts) m.experts = larger(4, layout->expert);
    m.ffn = 64 * tensor;
    m.vocabulary = 128 * tensor - 3;
    m.sequence = (64 + pieces - 1) / pieces * pieces * tensor * context;
    m.layers = check_layers(layout, slots);
    if (m.position_rows) m.position_rows = 2 * m.sequence;
    if (m.tied_embedding)
        m.init = INIT_STD; /* an embedding of std 1 gives logits of std sqrt(hidden), too large for BF16 */
    m.init_std = fmin(shape_init_std(w, m.hidden),
                      m.init == INIT_FAN_IN ? check_product_std : check_product_std / sqrt((double)m.hidden));
    shape_complete(&m, layout->degree[AXIS_TENSOR]);
    return m;
}

/* Adds a * b * c to the total; returns false on overflow. */
static bool add_product(int64_t *total, int64_t a, int64_t b, int64_t c)
{
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_mul_overflow(product, c, &product) &&
           !__builtin_add_overflow(*total, product, total);
}

/* Uses generous bounds in bytes: 64 for a parameter, 16 for each element that a token leaves on the tape. */
bool shape_fits(const bench_case *c, const char **what)
{
    const model_shape *m = &c->model;
    int64_t parameters = 0, tape = 0, activations = 0, tokens = 0;
    *what = "layers x hidden x (hidden + ffn) + vocabulary x hidden";
    if (!add_product(&parameters, 64 * 4 * m->layers, m->hidden, m->hidden + m->ffn)) return false;
    if (!add_product(&parameters, 64 * 2, m->padded_vocabulary, m->hidden)) return false;
    *what = "microbatch x sequence x (layers x (hidden + ffn) + vocabulary)";
    if (!add_product(&tape, 16 * 16, m->layers, m->hidden + m->ffn) ||
        !add_product(&tape, 16 * 4, m->padded_vocabulary, 1))
        return false;
    if (!add_product(&activations, c->microbatch, m->sequence, tape)) return false;
    *what = "global_batch x sequence x (warmup + steps)";
    return add_product(&tokens, c->global_batch, m->sequence, c->steps + c->warmup);
}
