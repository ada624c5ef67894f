/* The ends of the network. */
#include "model/ends.h"
#include "base/memory.h"
#include "machine/queue/submit.h"
#include "parallel/origin.h"
#include "parallel/zigzag.h"

static end_state *state_of(const network_ends *e, int64_t microbatch) { return &e->state[microbatch % e->states]; }
static queue *compute(const network_ends *e) { return e->work->queues.compute; }
static int table_row(const network_ends *e) { return param_row(e->work->params, PARAM_EMBEDDING, NO_LAYER); }
static int positions_row(const network_ends *e) { return param_row(e->work->params, PARAM_POSITIONS, NO_LAYER); }

/* ---- memory ---- */

/* Microbatches with deferred weight gradients stay until the drain. */
static int64_t ends_in_flight(const bench_case *c, const chunk_extent *chunk, int64_t live)
{
    int64_t deferred = chunk->has_loss ? c->microbatches - schedule_first_deferred(c) : 0;
    return live > deferred ? live : deferred;
}

/* A chunk without layers normalizes its input, so it makes no sum. */
static void open_head(end_state *m, const workspace *w, const chunk_extent *chunk, arena *a)
{
    const family *f = w->family;
    slot_set made = list_makes(&f->head);
    if (!chunk->layers) made &= ~slot_bit(SLOT_INPUT);
    for (int i = SLOT_INPUT; i < f->slots; i++)
        if (made & slot_bit(i)) m->slot[i] = tensor_taken(a, ACTIVATIONS, f->slot[i].shape(&w->extents));
}

static void open_states(network_ends *e, const chunk_extent *chunk, int64_t live, arena *a)
{
    const rank_extents *n = &e->work->extents;
    e->states = ends_in_flight(e->work->given, chunk, live);
    e->state = allocate(e->states, sizeof *e->state, "the microbatches in flight");
    for (int64_t m = 0; m < e->states; m++) {
        e->state[m].tokens = tensor_taken(a, BATCH, tensor_2d(NULL, I32, n->positions, n->batch));
        e->state[m].labels = tensor_taken(a, BATCH, tensor_2d(NULL, I32, n->positions, n->batch));
        if (chunk->has_loss) open_head(&e->state[m], e->work, chunk, a);
    }
}

void ends_open(network_ends *e, workspace *w, const chunk_extent *chunk, const schedule *order, arena *a)
{
    const rank_extents *n = &w->extents;
    int64_t ranks = w->tensor.ranks->size;
    unsigned places = w->params->places;
    *e = (network_ends){ .work = w };
    for (int i = 0; i < w->given->layout.chunks_per_stage; i++)
        if (chunk[i].has_embedding || chunk[i].has_loss) open_states(e, &chunk[i], schedule_live_chunk(order, i), a);
    if (!(places & AT_LOSS)) return;
    e->loss_part = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, F32, n->positions, n->batch, 3));
    if (w->tensor.imitated) ranks = w->tensor.imitated;
    if (ranks > 1) e->loss_parts = tensor_taken(a, ACTIVATIONS, tensor_4d(NULL, F32, ranks, n->positions, n->batch, 3));
}

void ends_close(network_ends *e) { free(e->state); }

/* ---- batch and embedding ---- */

static position_args local_positions(const network_ends *e)
{
    zigzag z = zigzag_of(e->work->context[0], e->work->given->model.sequence);
    return (position_args){ z.first, z.skip };
}

void batch_make(network_ends *e, int64_t microbatch, int64_t first_sample, tensor scalars)
{
    const bench_case *c = e->work->given;
    end_state *m = state_of(e, microbatch);
    tokens_args args = { .kind = c->tokens,
                         .labels_next = c->model.labels_next_token,
                         .seed = c->seed,
                         .vocabulary = (uint32_t)c->model.vocabulary,
                         .first_sample = first_sample,
                         .place = local_positions(e) };
    origin before = origin_phase(e->work->queues.machine, PHASE_BATCH);
    submit(compute(e), "tokens", tokens_op(scalars, m->tokens, m->labels, &args));
    origin_restore(e->work->queues.machine, before);
}

void embed_forward(network_ends *e, int64_t microbatch, tensor x)
{
    workspace *w = e->work;
    int table = table_row(e), positions = positions_row(e);
    bool alone = w->tensor.ranks->size == 1;
    tensor weight = weight_borrow(w->params, table, 1, USE_FORWARD, compute(e)), position_rows = tensor_none();
    if (positions >= 0) position_rows = weight_borrow(w->params, positions, 1, USE_FORWARD, compute(e));
    submit(compute(e), "embedding",
           embedding_forward_op((embedding_forward_operands){ .tokens = state_of(e, microbatch)->tokens,
                                                              .table = weight,
                                                              .out = alone ? x : w->partial,
                                                              .positions = position_rows },
                                (embedding_args){ w->params->row[table].part.first_row, local_positions(e) }));
    weight_return(w->params, table, 1, USE_FORWARD, compute(e));
    if (positions >= 0) weight_return(w->params, positions, 1, USE_FORWARD, compute(e));
    if (!alone) sequence_scatter(&w->tensor, "embedding", workspace_sum(w, x));
}

/* Adds the positions' gradient from d [s, b, h], which all tensor ranks have: each sums an equal run of positions. */
static void positions_gradient(const network_ends *e, int row, tensor d)
{
    param_table *t = e->work->params;
    int64_t s = d.dim[0], n = e->work->extents.own_positions, begin = e->work->tensor.ranks->rank * n, end = begin + n;
    access_mode access = param_contribute(t, row, 1, compute(e));
    tensor gradient = param_gradient(t, row, 1);
    if (access == WRITE) submit(compute(e), "positions_gradient", fill_op(gradient, 0.0));
    for (int64_t at = begin, until; at < end; at = until) {
        until = at < s / 2 && s / 2 < end ? s / 2 : end;
        tensor rows = tensor_slice(gradient, 0, position_of(local_positions(e), at, s), until - at);
        submit(compute(e), "positions_gradient", column_sums_op(tensor_slice(d, 0, at, until - at), rows, UPDATE));
    }
    param_contributed(t, row, 1, compute(e));
}

void embed_backward(network_ends *e, int64_t microbatch, tensor dx)
{
    workspace *w = e->work;
    int table = table_row(e), positions = positions_row(e);
    workspace_await(w, w->queues.tensor, w->d_gathered);
    tensor d = sequence_gather(&w->tensor, "d_embedding", dx, w->d_gathered);
    access_mode access = param_contribute(w->params, table, 1, compute(e));
    submit(compute(e), "embedding_gradient",
           embedding_backward_op(state_of(e, microbatch)->tokens, d, param_gradient(w->params, table, 1), access,
                                 w->params->row[table].part.first_row));
    param_contributed(w->params, table, 1, compute(e));
    if (positions >= 0) positions_gradient(e, positions, d);
}

/* ---- final norm, head and loss ---- */

enum { FINAL_NORM, HEAD };

static step_call call(const network_ends *e, int64_t microbatch, int step)
{
    return (step_call){ .work = e->work,
                        .step = &e->work->family->head.step[step],
                        .layer = NO_LAYER,
                        .slot = state_of(e, microbatch)->slot };
}

/* Imitates several ranks on one: each has some columns of the logits. */
static void submit_imitated_loss(const network_ends *e, cross_entropy_operands o)
{
    int ranks = e->work->tensor.imitated;
    int64_t columns = o.logits.dim[2] / ranks;
    tensor logits = o.logits;
    for (int i = 0; i < 2 * ranks; i++) {
        bool finishes = i >= ranks;
        o.first = i % ranks * columns;
        o.logits = tensor_slice(logits, 2, o.first, columns);
        o.partial = finishes ? e->loss_parts : tensor_slice(e->loss_parts, 0, i, 1);
        submit(compute(e), "loss", finishes ? cross_entropy_finish_op(&o) : cross_entropy_partial_op(&o));
    }
}

/* Submits the loss of the microbatch's sequences. The gradient of the logits replaces the logits. */
static void submit_loss(network_ends *e, int64_t microbatch, const step_call *head, tensor loss)
{
    workspace *w = e->work;
    const bench_case *c = w->given;
    cross_entropy_operands o = { .logits = step_made(head, 0),
                                 .labels = state_of(e, microbatch)->labels,
                                 .partial = e->loss_part,
                                 .loss = loss,
                                 .first = w->params->row[step_row(head, head->step->weight)].part.first_row,
                                 .valid = c->model.vocabulary,
                                 .gradient_scale =
                                     (float)(1.0 / ((double)c->global_batch * (double)c->model.sequence)) };
    if (w->tensor.imitated) {
        submit_imitated_loss(e, o);
        return;
    }
    submit(compute(e), "loss", cross_entropy_partial_op(&o));
    if (tensor_present(&e->loss_parts)) {
        o.partial = e->loss_parts;
        queues_transfer(&w->queues, w->queues.tensor, "loss",
                        all_gather_op(w->tensor.ranks, e->loss_parts, e->loss_part));
    }
    submit(compute(e), "loss", cross_entropy_finish_op(&o));
}

void head_forward(network_ends *e, int64_t microbatch, residual in, tensor loss)
{
    step_call norm = call(e, microbatch, FINAL_NORM), product = call(e, microbatch, HEAD);
    norm.in = in;
    if (!tensor_present(&in.delta)) norm.slot[SLOT_INPUT] = in.x;
    step_forward(&norm);
    step_forward(&product);
    submit_loss(e, microbatch, &product, loss);
}

/* Gathers the head's input after all earlier computation. */
static void gather_head_input(step_call *product)
{
    step_gather_input(product, product->step, queue_mark(product->work->queues.compute));
}

void head_backward_weight(network_ends *e, int64_t microbatch)
{
    step_call product = call(e, microbatch, HEAD);
    gather_head_input(&product);
    column_weight_gradient(&product);
}

void head_backward(network_ends *e, int64_t microbatch, tensor dx)
{
    step_call norm = call(e, microbatch, FINAL_NORM), product = call(e, microbatch, HEAD);
    bool defers = schedule_defers(e->work->given, microbatch);
    if (!defers) gather_head_input(&product);
    column_input_gradient(&product);
    if (!defers) column_weight_gradient(&product);
    norm.dx = dx;
    norm.dx_access = WRITE;
    step_backward(&norm);
}
