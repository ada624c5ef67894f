/* The ring of attention. */
#include "model/attention.h"

/* Of a view's shape, without its gaps. */
static tensor taken(arena *a, dtype type, tensor shape)
{
    return tensor_taken(a, ACTIVATIONS, tensor_4d(NULL, type, shape.dim[0], shape.dim[1], shape.dim[2], shape.dim[3]));
}

void ring_open(attention_ring *r, const queues *l, group *context, tensor q, tensor k, arena *a)
{
    *r = (attention_ring){ .queues = *l, .ranks = context };
    if (context->size == 1) return;
    tensor block = tensor_4d(NULL, k.type, 2 * k.dim[0], k.dim[1], k.dim[2], k.dim[3]);
    for (int i = 0; i < 2; i++) {
        r->block[i] = taken(a, k.type, block);
        r->d_sum[i] = taken(a, F32, block);
    }
    r->d_part = taken(a, F32, block);
    r->part = taken(a, F32, q);
    r->part_lse = tensor_taken(a, ACTIVATIONS, tensor_3d(NULL, F32, q.dim[1], q.dim[2], q.dim[0]));
    if (q.type != F32) r->sum = taken(a, F32, q);
}

/* The first or the second half of a dimension. */
static tensor first_half(tensor x, int dim) { return tensor_slice(x, dim, 0, x.dim[dim] / 2); }
static tensor second_half(tensor x, int dim) { return tensor_slice(x, dim, x.dim[dim] / 2, x.dim[dim] / 2); }

/* Block i of the ring is that of the rank i before, around the end. Of an earlier rank's block every query sees the
 * keys of the first piece; a later rank's block is seen, whole, by the queries of the second piece. The rest would be
 * masked. */
static bool is_earlier(const attention_ring *r, int i) { return i <= r->ranks->rank; }
static tensor queries(const attention_ring *r, int i, tensor x) { return is_earlier(r, i) ? x : second_half(x, 0); }
static tensor statistics(const attention_ring *r, int i, tensor lse)
{
    return is_earlier(r, i) ? lse : second_half(lse, 2);
}
static tensor seen(const attention_ring *r, int i, tensor x) { return is_earlier(r, i) ? first_half(x, 0) : x; }

static tensor keys(tensor block) { return first_half(block, 0); }
static tensor values(tensor block) { return second_half(block, 0); }

static void fill_block(const attention_ring *r, tensor k, tensor v)
{
    submit(r->queues.compute, "keys", copy_op(keys(r->block[0]), WRITE, k));
    submit(r->queues.compute, "values", copy_op(values(r->block[0]), WRITE, v));
}

/* x[at] goes to the next rank, x[1 - at] takes what comes from the one before. */
static int pass(const attention_ring *r, const tensor *x, int at, transfer *list)
{
    int ranks = r->ranks->size, rank = r->ranks->rank;
    list[0] = (transfer){ .send = true, .peer = (rank + 1) % ranks, .tensor = x[at] };
    list[1] = (transfer){ .send = false, .peer = (rank + ranks - 1) % ranks, .tensor = x[1 - at] };
    return 2;
}

/* The transfers beside block i: the block itself, if a rank has yet to see it; backward the gradient of the block
 * before it. */
static mark pass_on(const attention_ring *r, const char *name, int i, bool gradient)
{
    transfer list[4];
    int count = 0;
    if (i + 1 < r->ranks->size) count += pass(r, r->block, i % 2, list);
    if (gradient) count += pass(r, r->d_sum, (i + 1) % 2, list + count);
    queue_follow(r->queues.context, r->queues.compute);
    mark arrived = submit(r->queues.context, name, exchange_op(r->ranks, list, count));
    queues_wait_unless_overlap(&r->queues, arrived);
    return arrived;
}

static void forward_block(const attention_ring *r, int i, const attention_forward_operands *x, float scale)
{
    queue *q = r->queues.compute;
    tensor block = r->block[i % 2], part = queries(r, i, r->part), lse = statistics(r, i, r->part_lse);
    submit(q, "attention",
           attention_forward_op((attention_forward_operands){ .q = queries(r, i, x->q),
                                                              .k = seen(r, i, keys(block)),
                                                              .v = seen(r, i, values(block)),
                                                              .out = part,
                                                              .lse = lse },
                                (attention_args){ .scale = scale, .causal = false }));
    submit(q, "attention", attention_merge_op(queries(r, i, x->out), statistics(r, i, x->lse), part, lse));
}

static void forward_around(const attention_ring *r, attention_forward_operands x, attention_args causal)
{
    tensor out = x.out;
    if (out.type != F32) x.out = r->sum;
    fill_block(r, x.k, x.v);
    mark arrived = pass_on(r, "keys_values", 0, false);
    submit(r->queues.compute, "attention", attention_forward_op(x, causal));
    for (int i = 1; i < r->ranks->size; i++) {
        queue_wait(r->queues.compute, arrived);
        if (i + 1 < r->ranks->size) arrived = pass_on(r, "keys_values", i, false);
        forward_block(r, i, &x, causal.scale);
    }
    if (out.type != F32) submit(r->queues.compute, "attention", copy_op(out, WRITE, x.out));
}

void ring_attention_forward(const attention_ring *r, attention_forward_operands x, attention_args causal)
{
    if (r->ranks->size == 1) submit(r->queues.compute, "attention", attention_forward_op(x, causal));
    else forward_around(r, x, causal);
}

static void backward_block(const attention_ring *r, int i, const attention_backward_operands *x, float scale)
{
    tensor block = r->block[i % 2];
    submit(r->queues.compute, "d_attention",
           attention_backward_op((attention_backward_operands){ .q = queries(r, i, x->q),
                                                                .k = seen(r, i, keys(block)),
                                                                .v = seen(r, i, values(block)),
                                                                .out = queries(r, i, x->out),
                                                                .lse = statistics(r, i, x->lse),
                                                                .d_out = queries(r, i, x->d_out),
                                                                .dq = queries(r, i, x->dq),
                                                                .dk = seen(r, i, keys(r->d_part)),
                                                                .dv = seen(r, i, values(r->d_part)),
                                                                .dq_access = UPDATE,
                                                                .dkv_access = WRITE },
                                 (attention_args){ .scale = scale, .causal = false }));
}

/* The block's gradient has arrived: this rank's part is added. */
static void add_part(const attention_ring *r, int i)
{
    tensor to = r->d_sum[i % 2];
    submit(r->queues.compute, "d_keys", copy_op(seen(r, i, keys(to)), UPDATE, seen(r, i, keys(r->d_part))));
    submit(r->queues.compute, "d_values", copy_op(seen(r, i, values(to)), UPDATE, seen(r, i, values(r->d_part))));
}

static void backward_around(const attention_ring *r, attention_backward_operands x, attention_args causal)
{
    queue *q = r->queues.compute;
    int ranks = r->ranks->size;
    attention_backward_operands own = x;
    own.dq = x.dq.type == F32 ? x.dq : r->sum;
    own.dk = keys(r->d_sum[0]);
    own.dv = values(r->d_sum[0]);
    fill_block(r, x.k, x.v);
    mark arrived = pass_on(r, "keys_values", 0, false);
    submit(q, "d_attention", attention_backward_op(own, causal));
    queue_wait(q, arrived);
    for (int i = 1; i < ranks; i++) {
        arrived = pass_on(r, "d_keys_values", i, true);
        backward_block(r, i, &own, causal.scale);
        queue_wait(q, arrived);
        add_part(r, i);
    }
    queue_wait(q, pass_on(r, "d_keys_values", ranks, true));
    if (x.dq.type != F32) submit(q, "d_attention", copy_op(x.dq, WRITE, own.dq));
    submit(q, "d_keys", copy_op(x.dk, WRITE, keys(r->d_sum[ranks % 2])));
    submit(q, "d_values", copy_op(x.dv, WRITE, values(r->d_sum[ranks % 2])));
}

void ring_attention_backward(const attention_ring *r, attention_backward_operands x, attention_args causal)
{
    if (r->ranks->size == 1) submit(r->queues.compute, "d_attention", attention_backward_op(x, causal));
    else backward_around(r, x, causal);
}
