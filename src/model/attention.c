/* Causal attention of a sequence that lies in zig-zag pieces over the context ranks. Keys and values travel around a ring,
 * a block from each rank (Liu, Zaharia & Abbeel 2023): while one block is attended the next one is on its way. Backward the
 * sums of a block's gradients travel with it and come home. On one rank it is one operation. */
#include "machine/kernels.h"
#include "model/stage.h"

typedef struct {
    stage *s;
    queue *q;                   /* compute */
    group *ranks;
    int64_t half;               /* local positions of a piece */
    attention_args all;
} ring_call;

static ring_call call(stage *s, tensor queries, attention_args args)
{
    return (ring_call){ .s = s, .q = s->lanes.compute, .ranks = &s->mesh->axis[AXIS_CONTEXT], .half = queries.dim[0] / 2,
                        .all = { .scale = args.scale, .causal = false } };
}

/* Block i of the ring is that of i ranks before, around the end: of an earlier rank's block all queries see the keys of the
 * first piece; all keys of a later rank's block are seen by the queries of the second piece. The rest is masked. */
static bool is_earlier(const ring_call *r, int i) { return i <= r->ranks->rank; }
static tensor queries(const ring_call *r, int i, tensor x) { return is_earlier(r, i) ? x : tensor_slice(x, 0, r->half, r->half); }
static tensor statistics(const ring_call *r, int i, tensor x) { return is_earlier(r, i) ? x : tensor_slice(x, 2, r->half, r->half); }
static tensor pieces(const ring_call *r, int i, tensor x) { return is_earlier(r, i) ? tensor_slice(x, 0, 0, r->half) : x; }

/* Keys and values of a block, and what of them is seen. */
static tensor keys(tensor block) { return tensor_slice(block, 0, 0, block.dim[0] / 2); }
static tensor values(tensor block) { return tensor_slice(block, 0, block.dim[0] / 2, block.dim[0] / 2); }
static tensor seen_keys(const ring_call *r, int i, tensor block) { return pieces(r, i, keys(block)); }
static tensor seen_values(const ring_call *r, int i, tensor block) { return pieces(r, i, values(block)); }

static void fill_block(const ring_call *r, tensor k, tensor v)
{
    copy(r->q, "keys", keys(r->s->ring.block[0]), WRITE, k);
    copy(r->q, "values", values(r->s->ring.block[0]), WRITE, v);
}

/* To the next rank goes what lies in x[at], from the one before comes what x[1 - at] takes. */
static int pass(transfer *list, const ring_call *r, tensor *x, int at)
{
    int ranks = r->ranks->size, rank = r->ranks->rank;
    list[0] = (transfer){ true, (rank + 1) % ranks, x[at] };
    list[1] = (transfer){ false, (rank + ranks - 1) % ranks, x[1 - at] };
    return 2;
}

/* The transfers beside the attention of block i: the block itself, unless it was everywhere; backward also the sums of the
 * block before. */
static mark pass_on(const ring_call *r, const char *name, int i, bool sums)
{
    attention_ring *x = &r->s->ring;
    transfer list[4];
    int count = 0;
    if (i + 1 < r->ranks->size) count += pass(list, r, x->block, i % 2);
    if (sums) count += pass(list + count, r, x->d_sum, (i + 1) % 2);
    lane_follow(r->s->lanes.context, r->q);
    return fabric_exchange(r->s->lanes.context, name, r->ranks, list, count);
}

static void forward_block(const ring_call *r, int i, const attention_forward_operands *x)
{
    const attention_ring *b = &r->s->ring;
    tensor block = b->block[i % 2], part = queries(r, i, b->part), lse = statistics(r, i, b->part_lse);
    attention_forward(r->q, "attention", (attention_forward_operands){ .q = queries(r, i, x->q), .k = seen_keys(r, i, block),
        .v = seen_values(r, i, block), .out = part, .lse = lse }, r->all);
    attention_merge(r->q, "attention", queries(r, i, x->out), statistics(r, i, x->lse), part, lse);
}

void ring_attention_forward(stage *s, attention_forward_operands x, attention_args causal)
{
    ring_call r = call(s, x.q, causal);
    tensor out = x.out;
    if (r.ranks->size == 1) {
        attention_forward(r.q, "attention", x, causal);
        return;
    }
    if (out.type != F32) x.out = s->ring.sum;
    fill_block(&r, x.k, x.v);
    mark arrived = pass_on(&r, "keys_values", 0, false);
    attention_forward(r.q, "attention", x, causal);
    for (int i = 1; i < r.ranks->size; i++) {
        queue_wait(r.q, arrived);
        if (i + 1 < r.ranks->size) arrived = pass_on(&r, "keys_values", i, false);
        forward_block(&r, i, &x);
    }
    if (out.type != F32) copy(r.q, "attention", out, WRITE, x.out);
}

static void backward_block(const ring_call *r, int i, const attention_backward_operands *x)
{
    const attention_ring *b = &r->s->ring;
    tensor block = b->block[i % 2];
    attention_backward(r->q, "d_attention", (attention_backward_operands){ .q = queries(r, i, x->q), .k = seen_keys(r, i, block),
        .v = seen_values(r, i, block), .out = queries(r, i, x->out), .lse = statistics(r, i, x->lse), .d_out = queries(r, i, x->d_out),
        .dq = queries(r, i, x->dq), .dk = seen_keys(r, i, b->d_part), .dv = seen_values(r, i, b->d_part), .dq_access = UPDATE,
        .dkv_access = WRITE }, r->all);
}

/* The sums of the block's gradients have arrived: this rank's part is added. */
static void add_part(const ring_call *r, int i)
{
    const attention_ring *b = &r->s->ring;
    copy(r->q, "d_keys", seen_keys(r, i, b->d_sum[i % 2]), UPDATE, seen_keys(r, i, b->d_part));
    copy(r->q, "d_values", seen_values(r, i, b->d_sum[i % 2]), UPDATE, seen_values(r, i, b->d_part));
}

void ring_attention_backward(stage *s, attention_backward_operands x, attention_args causal)
{
    ring_call r = call(s, x.q, causal);
    int ranks = r.ranks->size;
    tensor dq = x.dq, dk = x.dk, dv = x.dv;
    if (ranks == 1) {
        attention_backward(r.q, "d_attention", x, causal);
        return;
    }
    if (dq.type != F32) x.dq = s->ring.sum;
    x.dk = keys(s->ring.d_sum[0]);
    x.dv = values(s->ring.d_sum[0]);
    fill_block(&r, x.k, x.v);
    mark arrived = pass_on(&r, "keys_values", 0, false);
    attention_backward(r.q, "d_attention", x, causal);
    queue_wait(r.q, arrived);
    for (int i = 1; i < ranks; i++) {
        arrived = pass_on(&r, "d_keys_values", i, true);
        backward_block(&r, i, &x);
        queue_wait(r.q, arrived);
        add_part(&r, i);
    }
    queue_wait(r.q, pass_on(&r, "d_keys_values", ranks, true));
    if (dq.type != F32) copy(r.q, "d_attention", dq, WRITE, x.dq);
    copy(r.q, "d_keys", dk, WRITE, keys(s->ring.d_sum[ranks % 2]));
    copy(r.q, "d_values", dv, WRITE, values(s->ring.d_sum[ranks % 2]));
}
