/* Steps that send tokens to the ranks of the experts that they chose, and back. Rows of an expert are interleaved with
 * those of the rank's other experts, so what ranks send, and what tensor ranks gather, needs no sorting
 * (machine/op/args.h, router_args). */
#include "machine/queue/submit.h"
#include "model/step_call.h"

/* Returns the shape [rows of an expert from all of `ranks`, own experts, columns]. */
static tensor rows_shape(const rank_extents *n, int64_t ranks, int64_t columns)
{
    return tensor_3d(NULL, n->type, ranks * n->expert_ranks * n->expert_rows, n->experts / n->expert_ranks, columns);
}
tensor expert_rows_shape(const rank_extents *n) { return rows_shape(n, 1, n->hidden); }
tensor expert_gathered_shape(const rank_extents *n) { return rows_shape(n, n->tensor_ranks, n->hidden); }
tensor expert_gate_up_shape(const rank_extents *n) { return rows_shape(n, n->tensor_ranks, 2 * n->ffn); }
tensor expert_ffn_shape(const rank_extents *n) { return rows_shape(n, n->tensor_ranks, n->ffn); }

/* ---- to the experts' ranks and back ---- */

static bool has_ranks(const step_call *c) { return c->work->experts.ranks->size > 1; }

/* Sets part r of `to` to the own part of rank r's `from`. On one rank `to` is `from`. */
static void exchange(step_call *c, const char *name, tensor to, tensor from)
{
    workspace *w = c->work;
    if (!has_ranks(c)) return;
    workspace_await(w, w->queues.tensor, to);
    queues_transfer(&w->queues, w->queues.tensor, name, all_to_all_op(w->experts.ranks, to, from));
}

/* Returns the buffer for rows to send or rows received; without other ranks it is `own`. */
static tensor exchange_buffer(const step_call *c, tensor own)
{
    workspace *w = c->work;
    if (!has_ranks(c)) return own;
    workspace_await(w, w->queues.compute, w->experts.exchanged);
    return w->experts.exchanged;
}

enum { TOKENS, DISPATCH_PLACES, DISPATCH_SOURCES };

static void send_tokens(step_call *c)
{
    tensor rows = step_made(c, 0), sent = exchange_buffer(c, rows);
    submit(c->work->queues.compute, c->step->name,
           permute_op(tensor_rows(sent), tensor_rows(step_read(c, TOKENS)), step_read(c, DISPATCH_SOURCES)));
    exchange(c, c->step->name, rows, sent);
}

static void send_tokens_backward(step_call *c)
{
    tensor d_rows = step_d_made(c, 0), returned = exchange_buffer(c, d_rows);
    exchange(c, c->step->backward_name, returned, d_rows);
    submit(c->work->queues.compute, c->step->backward_name,
           unpermute_forward_op(tensor_rows(step_d_read(c, TOKENS)), tensor_rows(returned), tensor_none(),
                                step_read(c, DISPATCH_PLACES)));
}

const step_kind dispatch = { .forward = send_tokens,
                             .backward = send_tokens_backward,
                             .saves_reads = 1u << DISPATCH_PLACES | 1u << DISPATCH_SOURCES };

enum { EXPERT_ROWS, COMBINE_WEIGHTS, COMBINE_PLACES, COMBINE_SOURCES };

static void combine(step_call *c)
{
    queue_wait(c->work->queues.compute, c->work->experts.statistics_summed);
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

/* Returns rows [R, experts, n] by expert: [experts, R, n]. */
static tensor by_expert(tensor x)
{
    return (tensor){ .data = x.data,
                     .type = x.type,
                     .dims = 3,
                     .dim = { x.dim[1], x.dim[0], x.dim[2] },
                     .stride = { x.dim[2], x.dim[1] * x.dim[2], 1 },
                     .scale = x.scale };
}

/* Returns the table rows that the step names, for all own experts: adjacent matrices. */
static param_rows all_matrices(const step_call *c)
{
    param_rows rows = c->step->weight;
    return (param_rows){ rows.first, rows.count * c->work->experts.args.local };
}

static tensor by_matrix(const step_call *c, tensor rows)
{
    int64_t experts = c->work->experts.args.local;
    return tensor_3d(rows.data, rows.type, experts, rows.dim[0] / experts, rows.dim[1]);
}

static const char *name_of(const step_call *c, weight_use use)
{
    return use == USE_FORWARD ? c->step->name : c->step->backward_name;
}

/* Borrows the matrices of all own experts: [own, k, n]. */
static tensor matrices(const step_call *c, weight_use use)
{
    tensor w = fp8_weight(c, all_matrices(c), use);
    if (w.dims == 2) w = by_matrix(c, w);
    return use == USE_FORWARD ? tensor_transposed(w) : w;
}

static void multiply(step_call *c, weight_use use, tensor y, tensor x)
{
    submit(c->work->queues.compute, name_of(c, use),
           grouped_matmul_op(by_expert(y), WRITE, by_expert(x), matrices(c, use)));
    step_return(c, all_matrices(c), use);
}

static void multiply_imitated(step_call *c, weight_use use, tensor y, tensor x)
{
    mixture *e = &c->work->experts;
    imitated_product p = { .a = by_expert(x),
                           .w = matrices(c, use),
                           .product = by_expert(e->partial),
                           .runs = step_runs(c, use, x.dim[2]),
                           .sum = { .partial = e->partial, .parts = e->parts, .out = y } };
    imitation_multiply(&e->tensor, name_of(c, use), p);
    step_return(c, all_matrices(c), use);
}

/* dW (+)= dy^T x */
static void weight_gradients(step_call *c, tensor x, tensor dy)
{
    workspace *w = c->work;
    contribution to = step_contribute(c, all_matrices(c), w->queues.weight);
    queue_follow(w->queues.weight, w->queues.compute);
    factors f = fp8_factors(c, x, dy, (factors){ tensor_transposed(by_expert(dy)), by_expert(x) });
    mark done = submit(w->queues.weight, c->step->gradient_name,
                       grouped_matmul_op(by_matrix(c, to.gradient), to.access, f.a, f.b));
    workspace_protect(w, f.b, done);
    workspace_protect(w, f.a, done);
    step_contributed(c, all_matrices(c), w->queues.weight);
}

/* Gathers the rows of all tensor ranks for operations of that queue. */
static tensor gathered(step_call *c, const char *name, tensor part, tensor whole, queue *reader)
{
    workspace *w = c->work;
    whole = fp8_gathered(part, whole);
    workspace_await(w, w->queues.tensor, whole);
    gathering rows = sequence_gather_begin(&w->experts.tensor, name, part, whole, queue_mark(w->queues.compute));
    return sequence_gather_end(&w->experts.tensor, &rows, reader);
}

/* Multiplies, and sums over the tensor ranks. */
static void multiply_sum(step_call *c, weight_use use, tensor y, tensor x)
{
    mixture *e = &c->work->experts;
    bool alone = e->tensor.ranks->size == 1;
    if (e->tensor.imitated) {
        multiply_imitated(c, use, y, x);
        return;
    }
    multiply(c, use, alone ? y : e->partial, x);
    if (!alone)
        sequence_scatter(&e->tensor, name_of(c, use),
                         (scattered_sum){ .partial = e->partial, .parts = e->parts, .out = y });
}

/* Returns the current part of the rows of all experts. */
static tensor part_of(const step_call *c, tensor x)
{
    int64_t n = x.dim[0] / c->work->extents.expert_parts;
    return tensor_slice(x, 0, c->part * n, n);
}

static void by_parts(step_call *c, void (*step)(step_call *))
{
    for (c->part = 0; c->part < c->work->extents.expert_parts; c->part++) step(c);
    c->part = 0;
}

static void column_part_forward(step_call *c)
{
    workspace *w = c->work;
    multiply(c, USE_FORWARD, part_of(c, step_made(c, 0)),
             gathered(c, c->step->name, fp8_input(c, c->step), w->experts.gathered, w->queues.compute));
}

static void column_part_backward(step_call *c)
{
    workspace *w = c->work;
    tensor x = gathered(c, c->step->backward_name, fp8_input(c, c->step), w->experts.gathered, w->queues.weight);
    tensor values = part_of(c, step_d_made(c, 0));
    fp8_encode_gradient(c, values);
    tensor dy = fp8_gradient(c, values);
    weight_gradients(c, x, dy);
    multiply_sum(c, USE_BACKWARD, part_of(c, step_d_read(c, 0)), dy);
}

static void column_forward(step_call *c) { by_parts(c, column_part_forward); }
static void column_backward(step_call *c) { by_parts(c, column_part_backward); }

const step_kind expert_column_product = {
    .forward = column_forward, .backward = column_backward, .saves_reads = 1u, .product = PRODUCT_OF_EXPERTS
};

static void row_part_forward(step_call *c)
{
    tensor returned = step_made(c, 0), product = exchange_buffer(c, returned);
    multiply_sum(c, USE_FORWARD, part_of(c, product), fp8_input(c, c->step));
    exchange(c, c->step->name, returned, product);
}

static void row_part_backward(step_call *c)
{
    tensor d_returned = step_d_made(c, 0), d_product = exchange_buffer(c, d_returned), values = part_of(c, d_product);
    exchange(c, c->step->backward_name, d_product, d_returned);
    workspace *w = c->work;
    fp8_encode_gradient(c, values);
    tensor dy = gathered(c, c->step->backward_name, fp8_gradient(c, values), w->experts.d_gathered, w->queues.compute);
    multiply(c, USE_BACKWARD, part_of(c, step_d_read(c, 0)), dy);
    weight_gradients(c, fp8_input(c, c->step), dy);
}

static void row_forward(step_call *c) { by_parts(c, row_part_forward); }
static void row_backward(step_call *c) { by_parts(c, row_part_backward); }

const step_kind expert_row_product = {
    .forward = row_forward, .backward = row_backward, .saves_reads = 1u, .product = PRODUCT_OF_EXPERTS
};
