/* Causal attention of a sequence that lies in zig-zag pieces over C context ranks (parallel/zigzag.h): keys and values
 * of all ranks are gathered into sequence order, and each of a rank's two pieces of queries is one call on the keys up
 * to its end (Dubey et al. 2024, section 3.3.2). Backward each rank's gradients of all keys and values are summed over
 * the ranks. On one rank it is one call and needs no memory.
 *
 * Rank c has the pieces c and 2C - 1 - c: the first halves of the sequence lie in the ranks' order, the second in the
 * reversed one, so each half has a group whose members are in its order. */
#pragma once
#include "base/arena.h"
#include "machine/queue/submit.h"
#include "parallel/queues.h"

enum { PIECES = 2 };

/* s: local positions, S = C s; kv_heads of this tensor rank. */
typedef struct {
    queues queues;
    group *ranks[PIECES];   /* context, and reversed */
    tensor kv;              /* [S, b, 2 kv_heads, d]: keys, then values */
    mark there[PIECES];     /* when a half of them is */
    tensor d_kv;            /* as kv, F32: their gradients by this rank's queries */
    mark cleared;           /* when its second half is zero, of which these queries do not see the end */
    tensor d_sent, d_parts; /* as kv: rounded, absent if they travel in FP32; of own pieces by all ranks */
    int imitated;           /* one rank adds d_kv as so many do; 0: in one call. d_parts: [halves, ranks, half of kv] */
} context_attention;

/* Takes memory for keys and values kv [s, b, 2 kv_heads, d], whose data is ignored. narrow: their gradients travel in
 * kv's type. */
void context_attention_open(context_attention *x, const queues *l, group *const ranks[PIECES], tensor kv, bool narrow,
                            arena *a);

/* After open, on one rank: adds the gradients of keys and values as `ranks` context ranks do. */
void context_attention_imitate(context_attention *x, int ranks, tensor kv, bool narrow, arena *a);

/* q, dq [s, b, heads, d] and kv, d_kv [s, b, 2 kv_heads, d] may be views; the others have no gaps. */
typedef struct {
    tensor q, kv, out, lse, d_out, dq, d_kv;
    float scale;
} attention_operands;
/* Every rank calls these alike. Keys and values are gathered behind what was computed, and stay until the next are.
 * Before each backward: clear. */
void context_attention_clear(context_attention *x);
void context_attention_gather(context_attention *x, tensor kv);
/* What the forward makes of lse [b, heads, s] is read by the backward only: the statistics of each piece, one after the
 * other. dq and d_kv are written. */
void context_attention_forward(const context_attention *x, const attention_operands *o);
void context_attention_backward(const context_attention *x, const attention_operands *o);
