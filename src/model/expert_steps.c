/* A mixture of experts: tokens choose two experts each, go to the ranks that hold those, and come back. Rows of an
 * expert lie interleaved with those of the rank's other experts, so that what ranks send one another, and what tensor
 * ranks gather, needs no sorting (machine/args.h, router_args). */
#include "base/fail.h"
#include "machine/submit.h"
#include "model/step_call.h"
#include "parallel/zigzag.h"
#include <stdlib.h>

static int64_t tokens_of(const rank_extents *n) { return n->part * n->rows; }

tensor router_shape(const rank_extents *n) { return tensor_2d(NULL, n->type, tokens_of(n), n->experts); }
tensor token_choices_shape(const rank_extents *n) { return tensor_2d(NULL, I32, tokens_of(n), CHOICES); }
tensor token_weights_shape(const rank_extents *n) { return tensor_2d(NULL, F32, tokens_of(n), CHOICES); }
tensor row_sources_shape(const rank_extents *n) { return tensor_1d(NULL, I32, n->experts * n->expert_rows); }
tensor routed_statistics_shape(const rank_extents *n)
{
    return tensor_3d(NULL, F32, n->rows, ROUTED_STATISTICS, n->experts);
}

/* [rows of an expert from all of `ranks`, own experts, columns] */
static tensor rows_shape(const rank_extents *n, int64_t ranks, int64_t columns)
{
    return tensor_3d(NULL, n->type, ranks * n->expert_ranks * n->expert_rows, n->experts / n->expert_ranks, columns);
}
tensor expert_rows_shape(const rank_extents *n) { return rows_shape(n, 1, n->hidden); }
tensor expert_gate_up_shape(const rank_extents *n) { return rows_shape(n, n->tensor_ranks, 2 * n->ffn); }
tensor expert_ffn_shape(const rank_extents *n) { return rows_shape(n, n->tensor_ranks, n->ffn); }

/* ---- memory ---- */

/* Strip j of tensor rank t is the positions [j s/K + t s/(K T), + s/(K T)) of its context rank's. */
int64_t mixture_position(const capacity_groups *g, int64_t sequence, int rank, int64_t i)
{
    int64_t strip = sequence / g->context / g->strips, run = strip / g->tensor;
    group context = group_line("context", 0, 1, g->context, rank / g->tensor);
    zigzag z = zigzag_of(&context, sequence);
    return zigzag_position(&z, i / run * strip + rank % g->tensor * run + i % run);
}

/* Local rows of the ranks whose groups a single rank stands for, as they lie there. */
static void write_order(const bench_case *c, int32_t *order)
{
    const capacity_groups *g = &c->capacity_groups;
    int ranks = g->context * g->tensor;
    for (int rank = 0; rank < ranks; rank++)
        for (int64_t i = 0; i < c->model.sequence / ranks; i++)
            for (int64_t b = 0; b < c->micro_batch; b++)
                *order++ = (int32_t)(mixture_position(g, c->model.sequence, rank, i) * c->micro_batch + b);
}

static void open_order(workspace *w, arena *a)
{
    mixture *x = &w->experts;
    x->order =
        tensor_taken(a, ACTIVATIONS, tensor_2d(NULL, I32, x->args.groups, tokens_of(&w->extents) / x->args.groups));
    int32_t *order = malloc(tensor_span(&x->order));
    if (!order) FAIL("no memory for the order of tokens");
    write_order(w->given, order);
    machine_upload(w->queues.machine, x->order, order);
    free(order);
}

/* What routers of a check model compute and decide is looked at after each step. */
static void open_records(workspace *w, arena *a)
{
    mixture *x = &w->experts;
    int64_t layers = 0, tokens = tokens_of(&w->extents);
    if (w->given->size != SIZE_CHECK) return;
    for (int i = 0; i < x->chunks; i++) layers += x->chunk[i].layers;
    tensor logits = tensor_4d(NULL, w->extents.type, w->given->microbatches, layers, tokens, w->extents.experts);
    tensor choices = tensor_4d(NULL, I32, w->given->microbatches, layers, tokens, CHOICES);
    x->logits = tensor_taken(a, BATCH, logits);
    x->choices = tensor_taken(a, BATCH, choices);
}

static tensor of_layer(tensor all, int64_t microbatch, int64_t layer)
{
    tensor one = tensor_slice(tensor_slice(all, 0, microbatch, 1), 1, layer, 1);
    return tensor_2d(one.data, one.type, one.dim[2], one.dim[3]);
}

tensor mixture_logits(const mixture *x, int64_t microbatch, int64_t layer)
{
    return of_layer(x->logits, microbatch, layer);
}
tensor mixture_choices(const mixture *x, int64_t microbatch, int64_t layer)
{
    return of_layer(x->choices, microbatch, layer);
}

static void open_mixture(workspace *w, arena *a)
{
    const rank_extents *n = &w->extents;
    mixture *x = &w->experts;
    tensor gathered = rows_shape(n, n->tensor_ranks, n->hidden);
    x->tensor = w->tensor;
    x->tensor.strips = 1;
    x->args = (router_args){ .rows = n->expert_rows,
                             .local = (int32_t)(n->experts / n->expert_ranks),
                             .groups = (int32_t)n->capacity_groups,
                             .given = w->given->choices_given };
    x->balance = tensor_taken(a, BATCH, tensor_1d(NULL, F64, n->rows));
    x->load = tensor_taken(a, BATCH, tensor_2d(NULL, F64, 2, n->experts));
    open_records(w, a);
    if (x->args.groups > 1) open_order(w, a);
    if (n->expert_ranks > 1) x->exchanged = tensor_taken(a, ACTIVATIONS, expert_rows_shape(n));
    if (n->tensor_ranks == 1) return;
    tensor *buffer[] = { &x->gathered, &x->d_gathered, &x->partial, &x->parts };
    for (int i = 0; i < 4; i++) *buffer[i] = tensor_taken(a, ACTIVATIONS, gathered);
}

/* ---- routing ---- */

enum { ROUTER_LOGITS, CHOSEN, WEIGHTED, PLACED, SOURCES, ROUTED };

/* Among the layers of the stage. */
static int64_t layer_at(const mixture *x, int64_t layer)
{
    int64_t before = 0;
    const chunk_extent *e = x->chunk;
    for (; layer < e->first_layer || layer >= e->first_layer + e->layers; e++) before += e->layers;
    return before + layer - e->first_layer;
}

static tensor logits_of(const step_call *c)
{
    const mixture *x = &c->work->experts;
    if (!tensor_present(&x->logits)) return step_made(c, ROUTER_LOGITS);
    return mixture_logits(x, x->microbatch, layer_at(x, c->layer));
}
static tensor choices_of(const step_call *c)
{
    const mixture *x = &c->work->experts;
    if (!tensor_present(&x->choices)) return step_made(c, CHOSEN);
    return mixture_choices(x, x->microbatch, layer_at(x, c->layer));
}

/* Counts and probabilities become those of whole sequences, beside what computes next. */
static void count_whole(step_call *c, tensor statistics)
{
    mixture *x = &c->work->experts;
    queue *const on[] = { c->work->queues.tensor, c->work->queues.context };
    x->counted = queue_mark(c->work->queues.compute);
    for (int i = 0; i < 2; i++) {
        if (x->whole[i]->size == 1) continue;
        queue_wait(on[i], x->counted);
        x->counted = submit(on[i], c->step->name, all_reduce_op(x->whole[i], statistics));
    }
    queues_wait_unless_overlap(&c->work->queues, x->counted);
}

static void route(step_call *c)
{
    workspace *w = c->work;
    queue *q = w->queues.compute;
    tensor logits = logits_of(c), weight = step_borrow(c, c->step->weight, USE_FORWARD);
    submit(q, c->step->name, matmul_op(logits, WRITE, tensor_rows(step_read(c, 0)), tensor_transposed(weight)));
    step_return(c, c->step->weight, USE_FORWARD);
    submit(q, c->step->name,
           router_forward_op((router_forward_operands){ .logits = logits,
                                                        .order = w->experts.order,
                                                        .choices = choices_of(c),
                                                        .weights = step_made(c, WEIGHTED),
                                                        .place = step_made(c, PLACED),
                                                        .source = step_made(c, SOURCES),
                                                        .statistics = step_made(c, ROUTED) },
                             w->experts.args));
    count_whole(c, step_made(c, ROUTED));
}

/* E coef / (T^2 k), of a sequence's T tokens with k choices each, in the mean over the sequences of the batch. */
static float balance_of(const bench_case *c)
{
    double tokens = (double)c->model.sequence;
    return (float)((double)c->model.experts * c->model.balance /
                   (tokens * tokens * (double)c->model.active * (double)c->global_batch));
}

/* The context ranks know the same of a sequence: the first of them reports it. */
static void route_backward(step_call *c)
{
    workspace *w = c->work;
    queue *q = w->queues.compute;
    bool reports = w->experts.whole[1]->rank == 0;
    tensor d_logits = step_d_made(c, ROUTER_LOGITS), n = tensor_rows(step_read(c, 0));
    submit(q, c->step->backward_name,
           router_backward_op((router_backward_operands){ .logits = logits_of(c),
                                                          .choices = choices_of(c),
                                                          .d_weights = step_d_made(c, WEIGHTED),
                                                          .statistics = step_made(c, ROUTED),
                                                          .d_logits = d_logits,
                                                          .loss = reports ? w->experts.balance : tensor_none(),
                                                          .load = reports ? w->experts.load : tensor_none() },
                              (balance_args){ balance_of(w->given) }));
    tensor weight = step_borrow(c, c->step->weight, USE_BACKWARD);
    submit(q, c->step->backward_name, matmul_op(tensor_rows(step_d_read(c, 0)), UPDATE, d_logits, weight));
    step_return(c, c->step->weight, USE_BACKWARD);
    contribution to = step_contribute(c, c->step->weight, q);
    submit(q, c->step->gradient_name, matmul_op(to.gradient, to.access, tensor_transposed(d_logits), n));
    step_contributed(c, c->step->weight, q);
}

const step_kind routing = { .open = open_mixture,
                            .forward = route,
                            .backward = route_backward,
                            .saves_reads = 1u,
                            .saves_makes = 1u << ROUTER_LOGITS | 1u << CHOSEN | 1u << ROUTED };

/* ---- to the experts' ranks and back ---- */

/* Part r of `to` = own part of rank r's `from`; on one rank `to` is `from`. */
static void exchange(step_call *c, const char *name, tensor to, tensor from)
{
    workspace *w = c->work;
    workspace_await(w, w->queues.tensor, to);
    queues_transfer(&w->queues, w->queues.tensor, name, all_to_all_op(w->experts.ranks, to, from));
}

static bool has_ranks(const step_call *c) { return c->work->experts.ranks->size > 1; }
/* Where rows lie that are to be sent, or have come, if `own` is where they lie without ranks to send them to. */
static tensor travelling(const step_call *c, tensor own)
{
    workspace *w = c->work;
    if (!has_ranks(c)) return own;
    workspace_await(w, w->queues.compute, w->experts.exchanged);
    return w->experts.exchanged;
}

enum { TOKENS, DISPATCH_PLACES, DISPATCH_SOURCES };

static void send_tokens(step_call *c)
{
    tensor rows = step_made(c, 0), sent = travelling(c, rows);
    submit(c->work->queues.compute, c->step->name,
           permute_op(tensor_rows(sent), tensor_rows(step_read(c, TOKENS)), step_read(c, DISPATCH_SOURCES)));
    if (has_ranks(c)) exchange(c, c->step->name, rows, sent);
}

static void send_tokens_backward(step_call *c)
{
    tensor d_rows = step_d_made(c, 0), back = travelling(c, d_rows);
    if (has_ranks(c)) exchange(c, c->step->backward_name, back, d_rows);
    submit(c->work->queues.compute, c->step->backward_name,
           unpermute_forward_op(tensor_rows(step_d_read(c, TOKENS)), tensor_rows(back), tensor_none(),
                                step_read(c, DISPATCH_PLACES)));
}

const step_kind dispatch = { .forward = send_tokens,
                             .backward = send_tokens_backward,
                             .saves_reads = 1u << DISPATCH_PLACES | 1u << DISPATCH_SOURCES };

enum { EXPERT_ROWS, COMBINE_WEIGHTS, COMBINE_PLACES, COMBINE_SOURCES };

static void combine(step_call *c)
{
    queue_wait(c->work->queues.compute, c->work->experts.counted);
    submit(c->work->queues.compute, c->step->name,
           unpermute_forward_op(tensor_rows(step_made(c, 0)), tensor_rows(step_read(c, EXPERT_ROWS)),
                                step_read(c, COMBINE_WEIGHTS), step_read(c, COMBINE_PLACES)));
}

static void combine_backward(step_call *c)
{
    submit(c->work->queues.compute, c->step->backward_name,
           unpermute_backward_op((unpermute_backward_operands){ .d_out = tensor_rows(step_d_made(c, 0)),
                                                                .y = tensor_rows(step_read(c, EXPERT_ROWS)),
                                                                .weights = step_read(c, COMBINE_WEIGHTS),
                                                                .place = step_read(c, COMBINE_PLACES),
                                                                .source = step_read(c, COMBINE_SOURCES),
                                                                .d_y = tensor_rows(step_d_read(c, EXPERT_ROWS)),
                                                                .d_weights = step_d_read(c, COMBINE_WEIGHTS) }));
}

const step_kind combination = { .forward = combine, .backward = combine_backward, .saves_reads = 15u };

/* ---- products of all own experts ---- */

/* Rows [R, experts, n] by expert, [experts, R, n]. */
static tensor by_expert(tensor x)
{
    return (tensor){ .data = x.data,
                     .type = x.type,
                     .dims = 3,
                     .dim = { x.dim[1], x.dim[0], x.dim[2] },
                     .stride = { x.dim[2], x.dim[1] * x.dim[2], 1 } };
}

/* The rows of the table that the step names, of all own experts: matrices one after the other. */
static param_rows of_all(const step_call *c)
{
    param_rows rows = c->step->weight;
    return (param_rows){ rows.first, rows.count * c->work->experts.args.local };
}

static tensor by_matrix(const step_call *c, tensor rows)
{
    int64_t experts = c->work->experts.args.local;
    return tensor_3d(rows.data, rows.type, experts, rows.dim[0] / experts, rows.dim[1]);
}

static void multiply(step_call *c, weight_use use, tensor y, tensor x)
{
    bool forward = use == USE_FORWARD;
    tensor w = by_matrix(c, step_borrow(c, of_all(c), use));
    submit(c->work->queues.compute, forward ? c->step->name : c->step->backward_name,
           grouped_matmul_op(by_expert(y), WRITE, by_expert(x), forward ? tensor_transposed(w) : w));
    step_return(c, of_all(c), use);
}

/* dW (+)= dy^T x */
static void weight_gradients(step_call *c, tensor x, tensor dy)
{
    workspace *w = c->work;
    contribution to = step_contribute(c, of_all(c), w->queues.weight);
    queue_follow(w->queues.weight, w->queues.compute);
    mark done =
        submit(w->queues.weight, c->step->gradient_name,
               grouped_matmul_op(by_matrix(c, to.gradient), to.access, tensor_transposed(by_expert(dy)), by_expert(x)));
    workspace_lend(w, x, done);
    workspace_lend(w, dy, done);
    step_contributed(c, of_all(c), w->queues.weight);
}

/* What all tensor ranks have of the rows. */
static tensor gathered(step_call *c, const char *name, tensor part, tensor whole)
{
    workspace *w = c->work;
    workspace_await(w, w->queues.tensor, whole);
    return sequence_gather(&w->experts.tensor, name, part, whole);
}

/* Summed over the tensor ranks. */
static void multiply_sum(step_call *c, weight_use use, tensor y, tensor x)
{
    mixture *e = &c->work->experts;
    bool alone = e->tensor.ranks->size == 1;
    multiply(c, use, alone ? y : e->partial, x);
    if (!alone)
        sequence_scatter(&e->tensor, use == USE_FORWARD ? c->step->name : c->step->backward_name,
                         (scattered_sum){ .partial = e->partial, .parts = e->parts, .out = y });
}

static void column_forward(step_call *c)
{
    multiply(c, USE_FORWARD, step_made(c, 0), gathered(c, c->step->name, step_read(c, 0), c->work->experts.gathered));
}

static void column_backward(step_call *c)
{
    tensor x = gathered(c, c->step->backward_name, step_read(c, 0), c->work->experts.gathered);
    weight_gradients(c, x, step_d_made(c, 0));
    multiply_sum(c, USE_BACKWARD, step_d_read(c, 0), step_d_made(c, 0));
}

const step_kind expert_column_product = { .forward = column_forward, .backward = column_backward, .saves_reads = 1u };

static void row_forward(step_call *c)
{
    tensor back = step_made(c, 0), made = travelling(c, back);
    multiply_sum(c, USE_FORWARD, made, step_read(c, 0));
    if (has_ranks(c)) exchange(c, c->step->name, back, made);
}

static void row_backward(step_call *c)
{
    tensor d_back = step_d_made(c, 0), d_made = travelling(c, d_back);
    if (has_ranks(c)) exchange(c, c->step->backward_name, d_made, d_back);
    tensor dy = gathered(c, c->step->backward_name, d_made, c->work->experts.d_gathered);
    multiply(c, USE_BACKWARD, step_d_read(c, 0), dy);
    weight_gradients(c, step_read(c, 0), dy);
}

const step_kind expert_row_product = { .forward = row_forward, .backward = row_backward, .saves_reads = 1u };
