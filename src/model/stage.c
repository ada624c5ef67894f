/* A stage's memory, and its functions in the order of the network. */
#include "model/stage.h"
#include "base/memory.h"
#include "machine/queue/submit.h"

static void open_chunks(stage *s, int stage_number)
{
    int chunks = s->given->layout.chunks_per_stage;
    s->chunk = allocate(chunks, sizeof *s->chunk, "the chunks of a stage");
    for (int i = 0; i < chunks; i++) s->chunk[i] = chunk_of(s->given, stage_number, i);
}

/* A check model keeps the scales of all microbatches, because they are read after each step. */
static int64_t most_in_flight(const bench_case *c, const schedule *order)
{
    int64_t most = 1;
    for (int i = 0; i < c->layout.chunks_per_stage; i++)
        if (schedule_live_chunk(order, i) > most) most = schedule_live_chunk(order, i);
    return c->size == SIZE_CHECK ? c->microbatches : most;
}

static void open_tape(stage *s, const schedule *order, arena *a)
{
    const family *f = s->work.family;
    slot_set of_layer = list_makes(&f->layer);
    bool fp8 = s->work.fp8.mode == FP8_ENCODES;
    tape_layout layout = { .chunk = s->chunk,
                           .chunks = s->given->layout.chunks_per_stage,
                           .order = order,
                           .slots = fp8 ? TAPE_SLOTS : f->slots,
                           .kept = recomputing_of(f, s->given->recompute, fp8).kept };
    for (int i = SLOT_INPUT; i < f->slots; i++) {
        if (of_layer & slot_bit(i)) layout.shape[i] = f->slot[i].shape(&s->work.extents);
        if (fp8) layout.shape[slot_fp8(i)] = fp8_kept_shape(&s->work.fp8, i);
    }
    tape_open(&s->tape, &layout, a);
}

static void open_boundary(boundary *b, int count, tensor shape, arena *a)
{
    b->count = count;
    for (int i = 0; i < count; i++) b->buffer[i].tensor = tensor_taken(a, ACTIVATIONS, shape);
}

/* A stage alone needs one gradient and no output. With neighbours, one output is sent while the next is made; one
 * gradient is received and another sent while a third is replaced. */
static void open_boundaries(stage *s, arena *a)
{
    bool alone = s->given->layout.degree[AXIS_PIPELINE] == 1;
    tensor shape = s->work.family->slot[SLOT_INPUT].shape(&s->work.extents);
    open_boundary(&s->outputs, alone ? 0 : 2, shape, a);
    open_boundary(&s->gradients, alone ? 1 : BOUNDARY_BUFFERS, shape, a);
}

boundary_buffer *boundary_next(boundary *b, queue *q)
{
    boundary_buffer *next = &b->buffer[b->next];
    b->next = (b->next + 1) % b->count;
    queue_wait(q, next->last_use);
    return next;
}

void stage_open(stage *s, const bench_case *c, mesh *m, const queues *q, const schedule *order, arena *a)
{
    *s = (stage){ .given = c,
                  .work = { .given = c,
                            .family = family_of(c),
                            .extents = rank_extents_of(c, m),
                            .queues = *q,
                            .tensor = { *q, &m->axis[AXIS_TENSOR], c->strips, c->imitated.tensor },
                            .context = { &m->axis[AXIS_CONTEXT], &m->context_reversed },
                            .experts = { .chunks = c->layout.chunks_per_stage,
                                         .ranks = &m->expert,
                                         .sequence_ranks = { &m->axis[AXIS_TENSOR], &m->axis[AXIS_CONTEXT] } },
                            .fp8 = { .in_flight = most_in_flight(c, order) },
                            .params = &s->params },
                  .data_ranks = m->layout.degree[AXIS_DATA] * m->layout.degree[AXIS_SHARD],
                  .data_rank = m->at[AXIS_DATA] * m->layout.degree[AXIS_SHARD] + m->at[AXIS_SHARD] };
    if (c->samples.ranks) s->data_ranks = c->samples.ranks, s->data_rank = c->samples.rank;
    open_chunks(s, m->at[AXIS_PIPELINE]);
    s->work.experts.chunk = s->chunk;
    param_table_open(&s->params, c, m, a);
    s->sharded = (sharded){ .params = &s->params, .queues = *q };
    sharded_open(&s->sharded, s->chunk, order, a);
    workspace_open(&s->work, a);
    open_tape(s, order, a);
    ends_open(&s->ends, &s->work, s->chunk, order, a);
    open_boundaries(s, a);
    s->loss = tensor_taken(a, BATCH, tensor_1d(NULL, F64, c->microbatches * c->microbatch));
    s->scalars = tensor_taken(a, BATCH, tensor_1d(NULL, F64, STEP_SCALARS));
}

void stage_close(stage *s)
{
    sharded_close(&s->sharded);
    param_table_close(&s->params);
    tape_close(&s->tape);
    ends_close(&s->ends);
    free(s->chunk);
}

void stage_step(stage *s)
{
    param_table_step(&s->params);
    tape_step(&s->tape);
    s->outputs.next = s->gradients.next = 0;
}

static int64_t first_sample(const stage *s, int64_t microbatch)
{
    return (microbatch * s->data_ranks + s->data_rank) * s->given->microbatch;
}

void stage_forward(stage *s, int chunk, int64_t microbatch, tensor output)
{
    const chunk_extent *e = &s->chunk[chunk];
    int64_t b = s->given->microbatch;
    s->work.microbatch = s->work.experts.microbatch = microbatch;
    residual x = { .x = tape_input(&s->tape, chunk, microbatch) };
    tape_take(&s->tape, chunk, microbatch);
    if (e->has_embedding || e->has_loss) batch_make(&s->ends, microbatch, first_sample(s, microbatch), s->scalars);
    if (e->has_embedding) embed_forward(&s->ends, microbatch, e->layers ? x.x : output);
    for (int64_t l = 0; l < e->layers; l++)
        x = layer_forward(&s->work, e->first_layer + l, tape_layer(&s->tape, chunk, microbatch, l), x);
    if (e->has_loss) head_forward(&s->ends, microbatch, x, tensor_slice(s->loss, 0, microbatch * b, b));
    else if (e->layers) submit(s->work.queues.compute, "output", add_op(output, x.x, x.delta));
}

void stage_backward(stage *s, int chunk, int64_t microbatch, tensor dx)
{
    const chunk_extent *e = &s->chunk[chunk];
    s->work.microbatch = s->work.experts.microbatch = microbatch;
    if (e->has_loss) head_backward(&s->ends, microbatch, dx);
    for (int64_t l = e->layers - 1; l >= 0; l--)
        layer_backward(&s->work, e->first_layer + l, tape_layer(&s->tape, chunk, microbatch, l), dx);
    if (e->has_embedding) embed_backward(&s->ends, microbatch, dx);
    tape_release(&s->tape, chunk, microbatch);
}

void stage_backward_weight(stage *s, int64_t microbatch) { head_backward_weight(&s->ends, microbatch); }
