/* Causal attention of a sequence that lies in zig-zag pieces over the context ranks (parallel/zigzag.h). Keys and
 * values travel around a ring, a block from each rank, beside the attention of the block before (Liu, Zaharia & Abbeel
 * 2023); backward the sums of a block's gradients travel with it and come home. On one rank it is one operation and
 * needs no memory. */
#pragma once
#include "base/arena.h"
#include "machine/submit.h"
#include "parallel/queues.h"

/* s: local positions; heads and kv_heads of this tensor rank. */
typedef struct {
    queues queues;
    group *ranks;            /* context */
    tensor block[2];         /* [2 s, b, kv_heads, d]: keys, then values of one rank; in turn */
    tensor sum;              /* [s, b, heads, d] F32: output, or gradient of the queries, over the blocks so far;
                              * absent in FP32 */
    tensor part, part_lse;   /* [s, b, heads, d], [b, heads, s] F32: over one block */
    tensor d_sum[2], d_part; /* as block, F32: its gradient over the ranks so far, in turn; of one rank */
} attention_ring;

/* Takes memory for queries q [s, b, heads, d] and keys k [s, b, kv_heads, d]; their data is ignored. */
void ring_open(attention_ring *r, const queues *l, group *context, tensor q, tensor k, arena *a);
/* Operands as the kernels take them, of the local positions; dq, dk and dv are written. Every rank calls both alike. */
void ring_attention_forward(const attention_ring *r, attention_forward_operands x, attention_args causal);
void ring_attention_backward(const attention_ring *r, attention_backward_operands x, attention_args causal);
