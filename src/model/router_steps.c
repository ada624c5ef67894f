/* Routing of tokens to two experts each, and the memory that the steps of a mixture of experts share. */
#include "base/memory.h"
#include "machine/queue/submit.h"
#include "model/step_call.h"
#include "parallel/zigzag.h"

static int64_t tokens_of(const rank_extents *n) { return n->own_positions * n->batch; }

tensor router_shape(const rank_extents *n) { return tensor_2d(NULL, n->type, tokens_of(n), n->experts); }
tensor token_choices_shape(const rank_extents *n) { return tensor_2d(NULL, I32, tokens_of(n), CHOICES); }
tensor token_weights_shape(const rank_extents *n) { return tensor_2d(NULL, F32, tokens_of(n), CHOICES); }
tensor row_sources_shape(const rank_extents *n) { return tensor_1d(NULL, I32, n->experts * n->expert_rows); }
tensor routed_statistics_shape(const rank_extents *n)
{
    return tensor_3d(NULL, F32, n->batch, ROUTED_STATISTICS, n->experts);
}

/* ---- memory ---- */

/* Strip j of tensor rank t has the positions [j s/K + t s/(K T), + s/(K T)) of its context rank. */
int64_t mixture_position(const capacity_groups *g, int64_t sequence, int rank, int64_t i)
{
    int64_t strip = sequence / g->context / g->strips, run = strip / g->tensor;
    group context = group_line("context", 0, 1, g->context, rank / g->tensor);
    zigzag z = zigzag_of(&context, sequence);
    return zigzag_position(&z, i / run * strip + rank % g->tensor * run + i % run);
}

/* Writes the local rows in the order of the ranks that this rank imitates. */
static void write_order(const bench_case *c, int32_t *order)
{
    const capacity_groups *g = &c->capacity_groups;
    int ranks = g->context * g->tensor;
    for (int rank = 0; rank < ranks; rank++)
        for (int64_t i = 0; i < c->model.sequence / ranks; i++)
            for (int64_t b = 0; b < c->microbatch; b++)
                *order++ = (int32_t)(mixture_position(g, c->model.sequence, rank, i) * c->microbatch + b);
}

static void open_order(workspace *w, arena *a)
{
    mixture *x = &w->experts;
    x->order =
        tensor_taken(a, ACTIVATIONS, tensor_2d(NULL, I32, x->args.groups, tokens_of(&w->extents) / x->args.groups));
    int32_t *order = allocate(1, tensor_span(&x->order), "the order of tokens");
    write_order(w->given, order);
    machine_upload(w->queues.machine, x->order, order);
    free(order);
}

/* Takes memory for what a check model's routers compute and choose, which is read after each step. */
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

static tensor layer_view(tensor all, int64_t microbatch, int64_t layer)
{
    tensor one = tensor_slice(tensor_slice(all, 0, microbatch, 1), 1, layer, 1);
    return tensor_2d(one.data, one.type, one.dim[2], one.dim[3]);
}

tensor mixture_logits(const mixture *x, int64_t microbatch, int64_t layer)
{
    return layer_view(x->logits, microbatch, layer);
}
tensor mixture_choices(const mixture *x, int64_t microbatch, int64_t layer)
{
    return layer_view(x->choices, microbatch, layer);
}

static void open_mixture(workspace *w, arena *a)
{
    const rank_extents *n = &w->extents;
    mixture *x = &w->experts;
    tensor gathered = expert_gathered_shape(n), part = tensor_slice(gathered, 0, 0, gathered.dim[0] / n->expert_parts);
    x->tensor = w->tensor;
    x->tensor.strips = 1;
    x->args = (router_args){ .rows = n->expert_rows,
                             .local = (int32_t)(n->experts / n->expert_ranks),
                             .groups = (int32_t)n->capacity_groups,
                             .given = w->given->choices_given };
    x->balance = tensor_taken(a, BATCH, tensor_1d(NULL, F64, n->batch));
    x->load = tensor_taken(a, BATCH, tensor_3d(NULL, F64, w->given->model.layers, 2, n->experts));
    open_records(w, a);
    if (x->args.groups > 1) open_order(w, a);
    if (x->ranks->size > 1) x->exchanged = tensor_taken(a, ACTIVATIONS, expert_rows_shape(n));
    scattered_sum imitated = imitation_open(&x->tensor, part, a);
    x->partial = imitated.partial, x->parts = imitated.parts;
    if (n->tensor_ranks == 1) return;
    tensor *buffer[] = { &x->gathered, &x->d_gathered, &x->partial, &x->parts };
    for (int i = 0; i < 4; i++) *buffer[i] = tensor_taken(a, ACTIVATIONS, gathered);
}

/* ---- routing ---- */

enum { ROUTER_LOGITS, CHOSEN, WEIGHTED, PLACED, SOURCES, ROUTED };

static int64_t layer_in_stage(const mixture *x, int64_t layer)
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
    return mixture_logits(x, x->microbatch, layer_in_stage(x, c->layer));
}
static tensor choices_of(const step_call *c)
{
    const mixture *x = &c->work->experts;
    if (!tensor_present(&x->choices)) return step_made(c, CHOSEN);
    return mixture_choices(x, x->microbatch, layer_in_stage(x, c->layer));
}

/* Sums counts and probabilities over whole sequences, next to later computation. */
static void sum_statistics(step_call *c, tensor statistics)
{
    mixture *x = &c->work->experts;
    queue *const queue_of[] = { c->work->queues.tensor, c->work->queues.context };
    x->statistics_summed = queue_mark(c->work->queues.compute);
    for (int i = 0; i < 2; i++) {
        if (x->sequence_ranks[i]->size == 1) continue;
        queue_wait(queue_of[i], x->statistics_summed);
        x->statistics_summed = submit(queue_of[i], c->step->name, all_reduce_op(x->sequence_ranks[i], statistics));
    }
    queues_wait_unless_overlap(&c->work->queues, x->statistics_summed);
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
    sum_statistics(c, step_made(c, ROUTED));
}

static tensor load_of(const step_call *c)
{
    tensor x = tensor_slice(c->work->experts.load, 0, c->layer, 1);
    return tensor_2d(x.data, x.type, x.dim[1], x.dim[2]);
}

/* Returns E coef / (T^2 k), for sequences of T tokens with k choices each; a mean over the batch's sequences. */
static float balance_of(const bench_case *c)
{
    double tokens = (double)c->model.sequence;
    return (float)((double)c->model.experts * c->model.balance /
                   (tokens * tokens * (double)c->model.active * (double)c->global_batch));
}

/* The context ranks know the same about a sequence, so only the first reports it. */
static void route_backward(step_call *c)
{
    workspace *w = c->work;
    queue *q = w->queues.compute;
    bool reports = w->experts.sequence_ranks[1]->rank == 0;
    tensor d_logits = step_d_made(c, ROUTER_LOGITS), n = tensor_rows(step_read(c, 0));
    submit(q, c->step->backward_name,
           router_backward_op((router_backward_operands){ .logits = logits_of(c),
                                                          .choices = choices_of(c),
                                                          .d_weights = step_d_made(c, WEIGHTED),
                                                          .statistics = step_made(c, ROUTED),
                                                          .d_logits = d_logits,
                                                          .loss = reports ? w->experts.balance : tensor_none(),
                                                          .load = reports ? load_of(c) : tensor_none() },
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
