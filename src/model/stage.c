/* A stage's buffers, and its verbs in the order of the network. */
#include "model/stage.h"
#include "base/fail.h"
#include "machine/submit.h"
#include "model/rope.h"
#include <stdlib.h>

typedef struct {
    int64_t s, part, b, h, q, kv, f, v;
} share; /* this rank's extents */

static share share_of(const bench_case *c, const mesh *m)
{
    const model_shape *x = &c->model;
    int64_t t = m->layout.degree[AXIS_TENSOR], s = x->sequence / m->layout.degree[AXIS_CONTEXT];
    return (share){ s,
                    s / t,
                    c->micro_batch,
                    x->hidden,
                    x->heads * x->head_dim / t,
                    x->kv_heads * x->head_dim / t,
                    x->ffn / t,
                    x->padded_vocabulary / t };
}

static void open_tape(stage *s, const share *n, dtype type, const schedule *order, arena *a)
{
    tensor residual = tensor_3d(NULL, type, n->part, n->b, n->h), rstd = tensor_1d(NULL, F32, n->part * n->b);
    int64_t heads = n->q / s->given->model.head_dim;
    tensor shape[SLOTS] = {
        [SLOT_X] = residual,
        [SLOT_N1] = residual,
        [SLOT_RSTD1] = rstd,
        [SLOT_QKV] = tensor_3d(NULL, type, n->s, n->b, n->q + 2 * n->kv),
        [SLOT_O] = tensor_3d(NULL, type, n->s, n->b, n->q),
        [SLOT_LSE] = tensor_3d(NULL, F32, n->b, heads, n->s),
        [SLOT_Y1] = residual,
        [SLOT_X2] = residual,
        [SLOT_N2] = residual,
        [SLOT_RSTD2] = rstd,
        [SLOT_GATE_UP] = tensor_3d(NULL, type, n->s, n->b, 2 * n->f),
        [SLOT_A] = tensor_3d(NULL, type, n->s, n->b, n->f),
        [SLOT_Y2] = residual,
    };
    tape_open(&s->tape, s->chunk, s->given->layout.chunks_per_stage, order, s->given->recompute, shape, a);
}

static void open_chunks(stage *s)
{
    int chunks = s->given->layout.chunks_per_stage;
    s->chunk = malloc((size_t)chunks * sizeof *s->chunk);
    if (!s->chunk) FAIL("no memory for %d chunks", chunks);
    for (int i = 0; i < chunks; i++) s->chunk[i] = chunk_of(s->given, s->mesh->at[AXIS_PIPELINE], i);
}

static void open_loss(end_state *e, const chunk_extent *chunk, const share *n, dtype type, arena *a)
{
    tensor residual = tensor_3d(NULL, type, n->part, n->b, n->h);
    if (chunk->layers) e->sum = tensor_taken(a, ACTIVATIONS, residual);
    e->normed = tensor_taken(a, ACTIVATIONS, residual);
    e->rstd = tensor_taken(a, ACTIVATIONS, tensor_1d(NULL, F32, n->part * n->b));
    e->logits = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, n->v));
}

/* Deferred weight gradients keep their microbatches until the drain. */
static int64_t ends_in_flight(const stage *s, const schedule *order, int chunk)
{
    int64_t live = schedule_live_chunk(order, chunk);
    int64_t deferred = s->chunk[chunk].has_loss ? s->given->microbatches - schedule_first_deferred(s->given) : 0;
    return live > deferred ? live : deferred;
}

static void open_ends(stage *s, const share *n, dtype type, const schedule *order, arena *a)
{
    for (int i = 0; i < s->given->layout.chunks_per_stage; i++) {
        const chunk_extent *chunk = &s->chunk[i];
        if (!chunk->has_embedding && !chunk->has_loss) continue;
        s->ends = ends_in_flight(s, order, i);
        s->end = calloc((size_t)s->ends + 1, sizeof *s->end);
        if (!s->end) FAIL("no memory for %lld microbatches", (long long)s->ends);
        for (int64_t m = 0; m < s->ends; m++) {
            s->end[m].tokens = tensor_taken(a, BATCH, tensor_2d(NULL, I32, n->s, n->b));
            s->end[m].labels = tensor_taken(a, BATCH, tensor_2d(NULL, I32, n->s, n->b));
            if (chunk->has_loss) open_loss(&s->end[m], chunk, n, type, a);
        }
    }
}

/* A stage alone needs one gradient and no output. With neighbours an output is sent while the next is made, and a
 * gradient is received and another sent while the one between is replaced. */
static void open_streams(stage *s, tensor residual, arena *a)
{
    bool alone = s->given->layout.degree[AXIS_PIPELINE] == 1;
    s->outputs.count = alone ? 0 : 2;
    s->gradients.count = alone ? 1 : STREAM_BUFFERS;
    for (int i = 0; i < s->outputs.count; i++) s->outputs.buffer[i].tensor = tensor_taken(a, ACTIVATIONS, residual);
    for (int i = 0; i < s->gradients.count; i++) s->gradients.buffer[i].tensor = tensor_taken(a, ACTIVATIONS, residual);
}

stream_buffer *stream_next(stream *x, queue *q)
{
    stream_buffer *b = &x->buffer[x->next];
    x->next = (x->next + 1) % x->count;
    queue_wait(q, b->busy);
    return b;
}

/* Shared by all layers and microbatches: each is consumed before the next one needs it. */
static void open_buffers(stage *s, const share *n, dtype type, arena *a)
{
    int64_t ranks = s->mesh->layout.degree[AXIS_TENSOR], half = s->given->model.head_dim / 2;
    tensor whole = tensor_3d(NULL, type, n->s, n->b, n->h), residual = tensor_3d(NULL, type, n->part, n->b, n->h);
    tensor part = tensor_3d(NULL, F32, n->s, n->b, 3);
    s->rope = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, F32, n->s, half, 2));
    open_streams(s, residual, a);
    s->dn = tensor_taken(a, ACTIVATIONS, residual);
    s->d_qkv = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, n->q + 2 * n->kv));
    s->d_o = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, n->q));
    s->d_a = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, n->f));
    s->d_gate_up = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, type, n->s, n->b, 2 * n->f));
    if (s->params.head >= 0) s->loss_part = tensor_taken(a, ACTIVATIONS, part);
    if (ranks == 1) return;
    if (s->params.embedding >= 0) s->embedded = tensor_taken(a, ACTIVATIONS, whole);
    s->gathered = tensor_taken(a, ACTIVATIONS, whole);
    s->d_gathered = tensor_taken(a, ACTIVATIONS, whole);
    int parts = scatter_partial_parts(&s->queues, &s->mesh->axis[AXIS_TENSOR]);
    s->partial = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, F32, parts * n->part, n->b, n->h));
    if (s->params.head >= 0) s->loss_parts = tensor_taken(a, ACTIVATIONS, tensor_4d(NULL, F32, ranks, n->s, n->b, 3));
}

static void open_ring(stage *s, const share *n, dtype type, arena *a)
{
    int64_t d = s->given->model.head_dim;
    tensor queries = tensor_4d(NULL, type, n->s, n->b, n->q / d, d),
           keys = tensor_4d(NULL, type, n->s, n->b, n->kv / d, d);
    ring_open(&s->ring, &s->queues, &s->mesh->axis[AXIS_CONTEXT], queries, keys, a);
}

void stage_open(stage *s, const bench_case *c, mesh *m, const queues *l, const schedule *order, arena *a)
{
    share n = share_of(c, m);
    dtype type = c->precision == PRECISION_BF16 ? BF16 : F32;
    *s = (stage){ .given = c, .mesh = m, .queues = *l };
    s->data_ranks = m->layout.degree[AXIS_DATA] * m->layout.degree[AXIS_SHARD];
    s->data_rank = m->at[AXIS_DATA] * m->layout.degree[AXIS_SHARD] + m->at[AXIS_SHARD];
    open_chunks(s);
    param_table_open(&s->params, c, m, a);
    open_tape(s, &n, type, order, a);
    open_ends(s, &n, type, order, a);
    open_buffers(s, &n, type, a);
    open_ring(s, &n, type, a);
    s->loss = tensor_taken(a, BATCH, tensor_1d(NULL, F64, c->microbatches * c->micro_batch));
    s->scalars = tensor_taken(a, BATCH, tensor_1d(NULL, F64, STEP_SCALARS));
}

void stage_close(stage *s)
{
    param_table_close(&s->params);
    tape_close(&s->tape);
    free(s->end);
    free(s->chunk);
}

void stage_initialize(stage *s)
{
    const model_shape *m = &s->given->model;
    float *table = malloc(tensor_span(&s->rope));
    if (!table) FAIL("no memory for the table of rotations");
    rope_table(m, zigzag_of(&s->mesh->axis[AXIS_CONTEXT], m->sequence), table);
    machine_upload(s->queues.machine, s->rope, table);
    free(table);
    fill(s->queues.compute, "loss", s->loss, 0.0);
}

static void enter(stage *s, phase p, int chunk, int64_t microbatch)
{
    origin *o = machine_origin_now(s->queues.machine);
    o->phase = p;
    o->chunk = chunk;
    o->microbatch = microbatch;
    o->layer = -1;
}

void stage_step(stage *s)
{
    param_table_step(&s->params);
    tape_step(&s->tape);
    s->outputs.next = s->gradients.next = 0;
}

static bool holds_end(const chunk_extent *e) { return e->has_embedding || e->has_loss; }

void stage_forward(stage *s, int chunk, int64_t microbatch, tensor output)
{
    const chunk_extent *e = &s->chunk[chunk];
    tensor x = tape_input(&s->tape, chunk, microbatch), y = tensor_none();
    enter(s, PHASE_FORWARD, chunk, microbatch);
    tape_take(&s->tape, chunk, microbatch);
    if (holds_end(e)) make_batch(s, microbatch);
    if (e->has_embedding) embed_forward(s, microbatch, e->layers ? x : output);
    for (int64_t l = 0; l < e->layers; l++) {
        layer_forward(s, chunk, microbatch, l, x, y);
        x = tape_layer(&s->tape, chunk, microbatch, l)[SLOT_X2];
        y = tape_layer(&s->tape, chunk, microbatch, l)[SLOT_Y2];
    }
    machine_origin_now(s->queues.machine)->layer = -1;
    if (e->has_loss) head_forward(s, microbatch, x, y);
    else if (e->layers) add(s->queues.compute, "output", output, x, y);
}

void stage_backward(stage *s, int chunk, int64_t microbatch)
{
    const chunk_extent *e = &s->chunk[chunk];
    enter(s, PHASE_BACKWARD, chunk, microbatch);
    if (e->has_loss) head_backward(s, microbatch);
    for (int64_t l = e->layers - 1; l >= 0; l--) layer_backward(s, chunk, microbatch, l);
    machine_origin_now(s->queues.machine)->layer = -1;
    if (e->has_embedding) embed_backward(s, microbatch);
    tape_release(&s->tape, chunk, microbatch);
}

void stage_backward_weight(stage *s, int64_t microbatch)
{
    enter(s, PHASE_BACKWARD, s->given->layout.chunks_per_stage - 1, microbatch);
    head_weight_gradient(s, microbatch);
}
