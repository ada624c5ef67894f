/* Causal attention of a sequence that lies in zig-zag pieces on C context ranks (parallel/zigzag.h). Keys and values of
 * all ranks are gathered into sequence order. Each of a rank's two pieces of queries is one call on the keys up to its
 * end (Dubey et al. 2024, section 3.3.2). In backward, each rank's gradients of all keys and values are summed over the
 * ranks. On one rank it is one call and needs no memory.
 *
 * Rank c has the pieces c and 2C - 1 - c: the first half of the sequence is in the order of the ranks, the second half
 * in reversed order, so each half has a group with members in its order. */
#pragma once
#include "base/arena.h"
#include "machine/queue/submit.h"
#include "parallel/queues.h"

enum { PIECES = 2 };

/* State of attention. s: local positions, S = C s; kv_heads of this tensor rank. */
typedef struct {
    queues queues;
    group *ranks[PIECES];      /* context ranks, and reversed */
    tensor kv;                 /* [S, b, 2 kv_heads, d]: keys, then values */
    mark arrived[PIECES];      /* arrival of each half of kv */
    tensor d_kv;               /* as kv, F32: their gradients from this rank's queries */
    mark cleared;              /* when its second half is zero, because attention does not write all of it */
    tensor d_rounded, d_parts; /* as kv: d_kv in BF16, absent if sent in FP32; own pieces from all ranks */
    int imitated; /* ranks whose sums of d_kv one rank imitates; 0: none. d_parts is then [PIECES, ranks, half of kv] */
} context_attention;

/* Takes memory for keys and values kv [s, b, 2 kv_heads, d], whose data is ignored. narrow: their gradients travel in
 * the type of kv. */
void context_attention_open(context_attention *x, const queues *l, group *const ranks[PIECES], tensor kv, bool narrow,
                            arena *a);

/* Makes one rank add the gradients of keys and values as `ranks` context ranks do. Call it after open. */
void context_attention_imitate(context_attention *x, int ranks, tensor kv, bool narrow, arena *a);

/* Operands. q, dq [s, b, heads, d] and kv, d_kv [s, b, 2 kv_heads, d] may be views; the others have no gaps. */
typedef struct {
    tensor q, kv, out, lse, d_out, dq, d_kv;
    float scale;
} attention_operands;
/* Prepares each backward. context_attention_gather gathers keys and values after earlier computation; they stay until
 * the next gather. All these functions are collective over the context ranks. */
void context_attention_clear(context_attention *x);
void context_attention_gather(context_attention *x, tensor kv);
/* Writes lse [b, heads, s] for the backward only: the statistics of each piece, one after the other. The backward
 * writes dq and d_kv. */
void context_attention_forward(const context_attention *x, const attention_operands *o);
void context_attention_backward(const context_attention *x, const attention_operands *o);
