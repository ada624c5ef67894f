/* A stage's buffers, and its verbs in the order of the network. */
#include "model/stage.h"
#include "base/fail.h"
#include "model/rope.h"
#include <stdlib.h>

typedef struct { int64_t s, part, b, h, q, kv, f, v; } share;       /* this rank's extents */

static share share_of(const bench_case *c, const mesh *m)
{
    const model_shape *x = &c->model;
    int64_t t = m->layout.degree[AXIS_TENSOR], s = x->sequence / m->layout.degree[AXIS_CONTEXT];
    return (share){ s, s / t, c->micro_batch, x->hidden, x->heads * x->head_dim / t,
                    x->kv_heads * x->head_dim / t, x->ffn / t, x->padded_vocabulary / t };
}

static tensor taken(arena *a, arena_kind kind, tensor shape)
{
    shape.data = arena_take(a, kind, tensor_span(&shape));
    return shape;
}

static void open_tape(stage *s, const share *n, dtype type, int64_t live, arena *a)
{
    tensor residual = tensor_3d(NULL, type, n->part, n->b, n->h), rstd = tensor_1d(NULL, F32, n->part * n->b);
    int64_t heads = n->q / s->given->model.head_dim;
    tensor shape[SLOTS] = {
        [SLOT_X] = residual, [SLOT_N1] = residual, [SLOT_RSTD1] = rstd,
        [SLOT_QKV] = tensor_3d(NULL, type, n->s, n->b, n->q + 2 * n->kv),
        [SLOT_O] = tensor_3d(NULL, type, n->s, n->b, n->q), [SLOT_LSE] = tensor_3d(NULL, F32, n->b, heads, n->s),
        [SLOT_Y1] = residual, [SLOT_X2] = residual, [SLOT_N2] = residual, [SLOT_RSTD2] = rstd,
        [SLOT_GATE_UP] = tensor_3d(NULL, type, n->s, n->b, 2 * n->f), [SLOT_A] = tensor_3d(NULL, type, n->s, n->b, n->f),
        [SLOT_Y2] = residual,
    };
    tape_open(&s->tape, s->given->model.layers, live, s->given->recompute, shape, a);
}

static void open_microbatches(stage *s, const share *n, dtype type, int64_t live, arena *a)
{
    s->state = calloc((size_t)live, sizeof *s->state);
    if (!s->state) FAIL("no memory for %lld microbatches", (long long)live);
    for (int64_t i = 0; i < live; i++) {
        microbatch_state *m = &s->state[i];
        m->tokens = taken(a, BATCH, tensor_2d(NULL, I32, n->s, n->b));
        m->labels = taken(a, BATCH, tensor_2d(NULL, I32, n->s, n->b));
        m->x = taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->part, n->b, n->h));
        m->normed = taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->part, n->b, n->h));
        m->rstd = taken(a, ACTIVATIONS, tensor_1d(NULL, F32, n->part * n->b));
    }
}

/* Shared by all layers and microbatches: each is consumed before the next one needs it. */
static void open_buffers(stage *s, const share *n, dtype type, arena *a)
{
    int64_t ranks = s->mesh->layout.degree[AXIS_TENSOR], half = s->given->model.head_dim / 2;
    tensor whole = tensor_3d(NULL, type, n->s, n->b, n->h), residual = tensor_3d(NULL, type, n->part, n->b, n->h);
    tensor part = tensor_3d(NULL, F32, n->s, n->b, 3);
    s->rope = taken(a, ACTIVATIONS, tensor_3d(NULL, F32, n->s, half, 2));
    s->dx = taken(a, ACTIVATIONS, residual);
    s->dn = taken(a, ACTIVATIONS, residual);
    s->d_qkv = taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, n->q + 2 * n->kv));
    s->d_o = taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, n->q));
    s->d_a = taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, n->f));
    s->d_gate_up = taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, 2 * n->f));
    s->logits = taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, n->v));
    s->loss_part = taken(a, ACTIVATIONS, part);
    if (ranks == 1) return;
    s->embedded = taken(a, ACTIVATIONS, whole);
    s->gathered = taken(a, ACTIVATIONS, whole);
    s->d_gathered = taken(a, ACTIVATIONS, whole);
    s->partial = taken(a, ACTIVATIONS, tensor_3d(NULL, F32, scatter_partial_parts(&s->lanes, &s->mesh->axis[AXIS_TENSOR]) * n->part, n->b, n->h));
    s->loss_parts = taken(a, ACTIVATIONS, tensor_4d(NULL, F32, ranks, n->s, n->b, 3));
}

static void open_ring(stage *s, const share *n, dtype type, arena *a)
{
    int64_t d = s->given->model.head_dim;
    tensor queries = tensor_4d(NULL, type, n->s, n->b, n->q / d, d), keys = tensor_4d(NULL, type, n->s, n->b, n->kv / d, d);
    ring_open(&s->ring, &s->lanes, &s->mesh->axis[AXIS_CONTEXT], queries, keys, a);
}

void stage_open(stage *s, const bench_case *c, mesh *m, const lanes *l, int64_t live, arena *a)
{
    share n = share_of(c, m);
    dtype type = c->precision == PRECISION_BF16 ? BF16 : F32;
    *s = (stage){ .given = c, .mesh = m, .lanes = *l };
    s->data_ranks = m->layout.degree[AXIS_DATA] * m->layout.degree[AXIS_SHARD];
    s->data_rank = m->at[AXIS_DATA] * m->layout.degree[AXIS_SHARD] + m->at[AXIS_SHARD];
    param_table_open(&s->params, c, m, a);
    open_tape(s, &n, type, live, a);
    open_microbatches(s, &n, type, live, a);
    open_buffers(s, &n, type, a);
    open_ring(s, &n, type, a);
    s->loss = taken(a, BATCH, tensor_1d(NULL, F64, c->microbatches * c->micro_batch));
    s->scalars = taken(a, BATCH, tensor_1d(NULL, F64, STEP_SCALARS));
}

void stage_close(stage *s)
{
    param_table_close(&s->params);
    tape_close(&s->tape);
    free(s->state);
}

void stage_initialize(stage *s)
{
    const model_shape *m = &s->given->model;
    float *table = malloc(tensor_span(&s->rope));
    if (!table) FAIL("no memory for the table of rotations");
    rope_table(m, zigzag_of(&s->mesh->axis[AXIS_CONTEXT], m->sequence), table);
    machine_upload(s->lanes.machine, s->rope, table);
    free(table);
}

static void enter(stage *s, phase p, int chunk, int64_t microbatch)
{
    origin *o = machine_origin_now(s->lanes.machine);
    o->phase = p;
    o->chunk = chunk;
    o->microbatch = microbatch;
    o->layer = -1;
}

void stage_forward(stage *s, int chunk, int64_t microbatch)
{
    enter(s, PHASE_FORWARD, chunk, microbatch);
    embed_forward(s, microbatch);
    tensor x = tape_layer(&s->tape, microbatch, 0)[SLOT_X], y = tensor_none();
    for (int64_t l = 0; l < s->tape.layers; l++) {
        layer_forward(s, microbatch, l, x, y);
        x = tape_layer(&s->tape, microbatch, l)[SLOT_X2];
        y = tape_layer(&s->tape, microbatch, l)[SLOT_Y2];
    }
    machine_origin_now(s->lanes.machine)->layer = -1;
    head_forward(s, microbatch, x, y);
}

void stage_backward(stage *s, int chunk, int64_t microbatch)
{
    enter(s, PHASE_BACKWARD, chunk, microbatch);
    head_backward(s, microbatch);
    for (int64_t l = s->tape.layers - 1; l >= 0; l--) layer_backward(s, microbatch, l);
    machine_origin_now(s->lanes.machine)->layer = -1;
    embed_backward(s, microbatch);
}
