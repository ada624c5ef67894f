/* Attention over the context ranks. */
#include "model/attention.h"

static bool is_alone(const context_attention *x) { return x->ranks[0]->size == 1; }

void context_attention_open(context_attention *x, const queues *l, group *const ranks[PIECES], tensor kv, bool narrow,
                            arena *a)
{
    tensor whole = tensor_4d(NULL, kv.type, ranks[0]->size * kv.dim[0], kv.dim[1], kv.dim[2], kv.dim[3]), wide = whole;
    wide.type = F32;
    *x = (context_attention){ .queues = *l, .ranks = { ranks[0], ranks[1] } };
    if (is_alone(x)) return;
    narrow = narrow && kv.type != F32;
    x->kv = tensor_taken(a, ACTIVATIONS, whole);
    x->d_kv = tensor_taken(a, ACTIVATIONS, wide);
    if (narrow) x->d_rounded = tensor_taken(a, ACTIVATIONS, whole);
    x->d_parts = tensor_taken(a, ACTIVATIONS, narrow ? whole : wide);
}

void context_attention_imitate(context_attention *x, int ranks, tensor kv, bool narrow, arena *a)
{
    tensor wide = kv;
    wide.type = F32;
    x->imitated = ranks;
    x->d_kv = tensor_taken(a, ACTIVATIONS, wide);
    x->d_parts = tensor_taken(a, ACTIVATIONS,
                              tensor_3d(NULL, narrow ? kv.type : F32, PIECES, ranks, tensor_elements(&kv) / PIECES));
}

/* Returns a rank's first or second piece, or a half of the whole sequence. */
static tensor half(tensor x, int i) { return tensor_slice(x, 0, i * (x.dim[0] / 2), x.dim[0] / 2); }

static tensor piece_statistics(tensor lse, int i)
{
    int64_t s = lse.dim[2] / 2, elements = lse.dim[0] * lse.dim[1] * s;
    return tensor_3d((float *)lse.data + i * elements, F32, lse.dim[0], lse.dim[1], s);
}

/* Returns what the queries of a piece see: all keys up to its own end. */
static tensor visible(const context_attention *x, int i, tensor kv)
{
    int64_t half_length = kv.dim[0] / 2, piece_length = half_length / x->ranks[i]->size;
    return tensor_slice(kv, 0, 0, i * half_length + (x->ranks[i]->rank + 1) * piece_length);
}

static tensor keys(tensor kv) { return tensor_slice(kv, 2, 0, kv.dim[2] / 2); }
static tensor values(tensor kv) { return tensor_slice(kv, 2, kv.dim[2] / 2, kv.dim[2] / 2); }

void context_attention_gather(context_attention *x, tensor kv)
{
    const queues *l = &x->queues;
    for (int i = 0; i < PIECES && !is_alone(x); i++) {
        const group *g = x->ranks[i];
        tensor whole = half(x->kv, i), own = half(kv, i);
        submit(l->compute, "keys_values",
               copy_op(tensor_slice(whole, 0, g->rank * own.dim[0], own.dim[0]), WRITE, own));
        queue_follow(l->context, l->compute);
        x->arrived[i] = submit(l->context, "keys_values", all_gather_op(x->ranks[i], whole, tensor_none()));
        queues_wait_unless_overlap(l, x->arrived[i]);
    }
}

/* Clears the whole half, although most of it is written later, so that every rank does the same. */
void context_attention_clear(context_attention *x)
{
    if (is_alone(x)) return;
    x->cleared = submit(x->queues.context, "d_keys_values", fill_op(half(x->d_kv, 1), 0.0));
    queues_wait_unless_overlap(&x->queues, x->cleared);
}

/* ---- calls ---- */

static void forward_call(const context_attention *x, attention_operands o)
{
    submit(x->queues.compute, "attention",
           attention_forward_op((attention_forward_operands){ o.q, keys(o.kv), values(o.kv), o.out, o.lse },
                                (attention_args){ .scale = o.scale, .causal = true }));
}

static void backward_call(const context_attention *x, attention_operands o, access_mode how)
{
    submit(x->queues.compute, "d_attention",
           attention_backward_op((attention_backward_operands){ .q = o.q,
                                                                .k = keys(o.kv),
                                                                .v = values(o.kv),
                                                                .out = o.out,
                                                                .lse = o.lse,
                                                                .d_out = o.d_out,
                                                                .dq = o.dq,
                                                                .dk = keys(o.d_kv),
                                                                .dv = values(o.d_kv),
                                                                .dkv_access = how },
                                 (attention_args){ .scale = o.scale, .causal = true }));
}

/* Returns the operands of one piece; those of backward are absent in forward. */
static attention_operands of_piece(const context_attention *x, int i, const attention_operands *o)
{
    attention_operands p = { .q = half(o->q, i),
                             .kv = visible(x, i, x->kv),
                             .out = half(o->out, i),
                             .lse = piece_statistics(o->lse, i),
                             .scale = o->scale };
    if (!tensor_present(&o->dq)) return p;
    p.d_out = half(o->d_out, i);
    p.dq = half(o->dq, i);
    p.d_kv = visible(x, i, x->d_kv);
    return p;
}

void context_attention_forward(const context_attention *x, const attention_operands *o)
{
    if (is_alone(x)) forward_call(x, *o);
    for (int i = 0; i < PIECES && !is_alone(x); i++) {
        queue_wait(x->queues.compute, x->arrived[i]);
        forward_call(x, of_piece(x, i, o));
    }
}

/* Sums half i of the gradients over the ranks, in the order of their group. */
static mark sum_over_ranks(const context_attention *x, int i, tensor d_kv)
{
    const queues *l = &x->queues;
    scattered_sum sum = { half(x->d_kv, i), half(x->d_parts, i), half(d_kv, i) };
    if (tensor_present(&x->d_rounded)) {
        sum.partial = half(x->d_rounded, i);
        submit(l->compute, "d_keys_values", copy_op(sum.partial, WRITE, half(x->d_kv, i)));
    }
    return queues_scatter_sum(l, l->context, "d_keys_values", x->ranks[i], sum);
}

/* Returns the operands of piece i of all ranks in sequence order. */
static attention_operands of_all_pieces(const context_attention *x, int i, const attention_operands *o)
{
    int64_t n = o->q.dim[0] / PIECES / x->imitated, begin = i * n;
    attention_operands p = *o;
    tensor *queries[] = { &p.q, &p.out, &p.d_out, &p.dq }, *keys_values[] = { &p.kv, &p.d_kv };
    p.d_kv = x->d_kv;
    p.lse = tensor_slice(o->lse, 2, begin, n);
    for (int k = 0; k < 4; k++) *queries[k] = tensor_slice(*queries[k], 0, begin, n);
    for (int k = 0; k < 2; k++) *keys_values[k] = tensor_slice(*keys_values[k], 0, 0, begin + n);
    return p;
}

/* Imitates several ranks on one: each rank's sums over both of its pieces, then their sum in each half's order. */
static void backward_imitated(const context_attention *x, const attention_operands *o)
{
    queue *q = x->queues.compute;
    for (int rank = 0; rank < x->imitated; rank++) {
        int second = PIECES * x->imitated - 1 - rank, place[] = { rank, x->imitated - 1 - rank };
        submit(q, "d_keys_values", fill_op(half(x->d_kv, 1), 0.0));
        backward_call(x, of_all_pieces(x, second, o), WRITE);
        backward_call(x, of_all_pieces(x, rank, o), UPDATE);
        for (int i = 0; i < PIECES; i++)
            submit(q, "d_keys_values",
                   copy_op(tensor_flat(tensor_slice(tensor_slice(x->d_parts, 0, i, 1), 1, place[i], 1)), WRITE,
                           tensor_flat(half(x->d_kv, i))));
    }
    for (int i = 0; i < PIECES; i++)
        submit(q, "d_keys_values", sum_parts_op(half(o->d_kv, i), tensor_slice(x->d_parts, 0, i, 1)));
}

/* The first piece sees nothing of the second half, which is sent meanwhile. */
void context_attention_backward(const context_attention *x, const attention_operands *o)
{
    queue *q = x->queues.compute;
    if (is_alone(x)) {
        if (x->imitated) backward_imitated(x, o);
        else backward_call(x, *o, WRITE);
        return;
    }
    for (int i = 0; i < PIECES; i++) queue_wait(q, x->arrived[i]);
    queue_wait(q, x->cleared);
    backward_call(x, of_piece(x, 1, o), WRITE);
    sum_over_ranks(x, 1, o->d_kv);
    backward_call(x, of_piece(x, 0, o), UPDATE);
    queue_wait(q, sum_over_ranks(x, 0, o->d_kv));
}
