/* Fillers: one pure function for each computing operation. It makes the op, or notes an error in it; submit.h submits
 * it. The comments state what the op computes. rows = positions x sequences of the microbatch, position slowest. */
#pragma once
#include "machine/op/op.h"

/* c [m, n] = a [m, k] b [k, n] (WRITE), or c += a b inside the product (UPDATE). Each matrix has a unit stride. a, b:
 * both F32 or both BF16; c: F32, or BF16 if they are. Sums are FP32, rounded once to c's type; a GPU may round a BF16
 * product before it adds it to c (limits.c). */
op matmul_op(tensor c, access_mode c_access, tensor a, tensor b);
/* a and b can also be FP8, E4M3 or E5M2 but not both E5M2; the product is divided by both scales, and c is BF16 or F32.
 * GPUs require: rows of a and columns of b have no gaps; k, the strides of a and b and the contiguous size of c are
 * multiples of FP8_ALIGNMENT. On a GPU, sums of two E4M3 factors may keep fewer bits than FP32. */
enum { FP8_ALIGNMENT = 16 };
/* c = a b + bias [n], rounded as above; bias of c's type, or absent. Rows of c have no gaps; if a is FP8, c is BF16. */
op matmul_bias_op(tensor c, tensor a, tensor b, tensor bias);

/* sum = x + delta, rounded to x's type; without delta, x is the sum. RMSNorm: out = sum * rstd * gain; rstd [rows] F32
 * = 1 / sqrt(mean(sum^2) + epsilon). LayerNorm, if bias and mean are present: out = (sum - mean) * rstd * (1 + gain) +
 * bias; mean [rows] F32, rstd = 1 / sqrt(mean((sum - mean)^2) + epsilon). x to out are [rows, h]; gain, bias [h]. */
typedef struct {
    tensor x, delta, gain, sum, out, rstd, bias, mean;
} norm_forward_operands;
op norm_forward_op(norm_forward_operands o, float epsilon);

/* Gradients of the norm (Zhang & Sennrich 2019; with mean Ba et al. 2016), written or added to: dx [rows, h], where the
 * sum is rounded once; gain_gradient and, with mean, bias_gradient [h] F32. x [rows, h] is the norm's input. */
typedef struct {
    tensor d_out, x, rstd, gain, dx, gain_gradient, mean, bias_gradient;
    access_mode dx_access, gain_access, bias_access;
} norm_backward_operands;
op norm_backward_op(norm_backward_operands o);

/* Rotate pairs (i, i + d/2) of x [s, b, heads, d] in place by table [s, d/2, 2] F32 (cosine, sine), or back. */
op rope_forward_op(tensor x, tensor table);
op rope_backward_op(tensor x, tensor table);

/* Attention of q [s, b, heads, d] over k, v [t, b, kv_heads, d]. causal: query i sees keys 0 .. i + t - s of t >= s;
 * else all keys. out: like q, may be a strided view. lse [b, heads, s] F32 = log of the sum of exp(scaled scores).
 * Computed in blocks, without s x t memory (Dao 2023, algorithm 1). */
typedef struct {
    tensor q, k, v, out, lse;
} attention_forward_operands;
op attention_forward_op(attention_forward_operands o, attention_args args);
/* Gradients dq, dk and dv, in q's type or F32. With UPDATE, dk and dv are F32 and are added to. */
typedef struct {
    tensor q, k, v, out, lse, d_out, dq, dk, dv;
    access_mode dkv_access;
} attention_backward_operands;
op attention_backward_op(attention_backward_operands o, attention_args args);
/* out = a + b, rounded once; equal shapes, contiguous. */
op add_op(tensor out, tensor a, tensor b);

/* gate_up [rows, 2f]: gate first, up second. out [rows, f] = silu(gate) * up. */
op swiglu_forward_op(tensor gate_up, tensor out);
op swiglu_backward_op(tensor gate_up, tensor d_out, tensor d_gate_up);

/* out [rows, f] = gelu(gate) * up, with the tanh approximation of gelu. Operands as for swiglu. */
op geglu_forward_op(tensor gate_up, tensor out);
op geglu_backward_op(tensor gate_up, tensor d_out, tensor d_gate_up);

/* For each g, as matmul_op: c [g, m, n] = or += a [g, m, k] b [g, k, n]. Each matrix has a unit stride. */
op grouped_matmul_op(tensor c, access_mode c_access, tensor a, tensor b);

/* Chooses two experts for each token, and their rows in the experts' buffers (args.h, router_args). logits [n, E], n =
 * positions x sequences. order [groups, n / groups] I32: the tokens of each group; absent: one group. choices [n, 2]
 * I32: the two largest logits (ties: the lower expert) as e, or -1 - e if dropped; an input with args.given. In each
 * group, an expert's choices with the largest weights (ties: the first token) fill its rows in the order of tokens; the
 * others are dropped. weights [n, 2] F32: softmax of the two logits. place [n, 2] I32: row in the buffers, -1 if
 * dropped. source [rows of all buffers] I32: 2 * token + choice, -1 in an unused row. statistics [b, 3, E] F32
 * (ROUTED_...); probabilities are the softmax of all logits. */
typedef struct {
    tensor logits, order, choices, weights, place, source, statistics;
} router_forward_operands;
op router_forward_op(router_forward_operands o, router_args args);
/* Computes d_logits from d_weights [n, 2] F32 and each sequence's balance loss: args.balance * sum over e of statistic
 * 0 * statistic 1. loss [b] F64 += balance losses; load [2, E] F64 += statistics 1 and 2; both are optional. */
typedef struct {
    tensor logits, choices, d_weights, statistics, d_logits, loss, load;
} router_backward_operands;
op router_backward_op(router_backward_operands o, balance_args args);

/* Row r of out [rows, h] = row source[r] / 2 of x [n, h], or 0 if source[r] is -1. */
op permute_op(tensor out, tensor x, tensor source);
/* Row t of out [n, h] = sum over kept choices c of weights[t, c] * row place[t, c] of y [rows, h], added in FP32 in
 * order and rounded once. Without weights [n, 2] all are 1: the backward of permute. */
op unpermute_forward_op(tensor out, tensor y, tensor weights, tensor place);
/* d_y [rows, h]: 0 in unused rows; d_weights [n, 2] F32: 0 for dropped choices. */
typedef struct {
    tensor d_out, y, weights, place, source, d_y, d_weights;
} unpermute_backward_operands;
op unpermute_backward_op(unpermute_backward_operands o);
/* out = max(x, 0)^2; dx = 2 max(x, 0) d_out, which may have the memory of d_out. Equal shapes, contiguous. */
op squared_relu_forward_op(tensor x, tensor out);
op squared_relu_backward_op(tensor x, tensor d_out, tensor dx);

/* out [rows, f] = gelu(x + bias), bias [f]. Backward: dx = d_out gelu'(x + bias); bias_gradient F32 [f] (+)= sums. */
op gelu_forward_op(tensor x, tensor bias, tensor out);
typedef struct {
    tensor x, bias, d_out, dx, bias_gradient;
    access_mode bias_access;
} gelu_backward_operands;
op gelu_backward_op(gelu_backward_operands o);

/* FP8 encoding of values [m, n] times their scale; any member may be absent. codes: [m, n]. transposed: [n, m] or, if
 * row i is of group i mod groups, [groups, n, m / groups], padded with zeros (fp8_transposed_shape). amax [1] I32:
 * maximum of itself and amax_bits of the values. counts [FP8_COUNTS] U64 += counts of the values. */
typedef struct {
    tensor codes, transposed, amax, counts;
} encoding;
op quantize_op(tensor x, encoding to);
/* Return the operation with an encoding of its rounded output, or unchanged if `to` has no codes. The encoding replaces
 * the output of norm_forward, activations and their gradients; norm_backward keeps dx. rope_backward encodes `whole`
 * [s, b, heads, d] without gaps, which is only read; x is its first heads, or the first elements of each. */
op encode_op(op o, encoding to);
op encode_rotated_op(op o, tensor whole, encoding to);
/* out = FP8 matrix x [m, n], or groups of them, transposed to fp8_transposed_shape. */
op transpose_op(tensor out, tensor x);
/* Returns a tensor without data: [n, padded m] if groups is 0, else [groups, n, padded m]. */
tensor fp8_transposed_shape(dtype type, int64_t groups, int64_t m, int64_t n);

/* sums [n] or [groups, n] F32 without gaps (+)= column sums of x, for each of `groups` equal blocks of rows: the
 * gradient of a bias that was added to all rows of a group. */
op column_sums_op(tensor x, tensor sums, access_mode sums_access);

/* out [s, b, h] = for each token [s, b] its row of table [V/T, h], or 0 if another rank has it; table begins at
 * vocabulary row `first`. positions [.., h]: the row of the position is added to a row found here, in FP32, rounded
 * once. Backward: for each row an FP32 sum over its tokens in position order, then a rounded add (UPDATE) or store
 * (WRITE). */
typedef struct {
    tensor tokens, table, out, positions;
} embedding_forward_operands;
op embedding_forward_op(embedding_forward_operands o, embedding_args args);
op embedding_backward_op(tensor tokens, tensor d_out, tensor gradient, access_mode gradient_access, int64_t first);

/* Cross-entropy of logits [s, b, V/T] that T ranks share. Part 1: partial [s, b, 3] F32 = (max, sum exp(x - max), own
 * label's logit or 0); columns >= valid are masked. Part 2, from the partials [T, s, b, 3] of all ranks: loss [b] F64 =
 * sum over positions; logits become (softmax - onehot) * gradient_scale in place, 0 in masked columns. */
typedef struct {
    tensor logits, labels, partial, loss;
    int64_t first, valid;
    float gradient_scale;
} cross_entropy_operands;
op cross_entropy_partial_op(const cross_entropy_operands *o);
op cross_entropy_finish_op(const cross_entropy_operands *o);

/* AdamW on one bucket: weight is written from master or, without master, updated in place. gradient is first multiplied
 * by SCALAR_CLIP. An FP8 weight is the master rounded to BF16, times its scale; amax and counts are as in quantize_op,
 * of the new BF16 values. */
typedef struct {
    tensor scalars, gradient, weight, master, first, second, amax, counts;
} adamw_operands;
op adamw_op(const adamw_operands *o, adamw_rule rule);

/* Fills out [rows, columns] with normal numbers (DEFINITIONS.md). Its element (0, 0) is (first_row, first_column) of
 * the logical tensor [args->rows, args->columns]; elements outside of that are 0. */
op initialize_op(tensor out, const initialize_args *args);
/* sum [1] U64 += digest_element (base/numeric.h) of every element of x, of any format, without gaps. Element i has
 * place args->place + i. The sum wraps around and does not depend on the order of elements. */
op digest_op(tensor x, tensor sum, const digest_args *args);
/* totals [SUM_SLICES, SLICE_TOTALS] F64: for each slice of the owners' parts of x (args.h), the sum of its elements
 * with random signs (signed_value, from place and step) and the sum of their squares; a machine always adds in the same
 * order. x: F32 or BF16 without gaps; each part and args->place are multiples of SIGN_RUN. */
op signed_sums_op(tensor x, tensor scalars, tensor totals, const signed_sums_args *args);
op fill_op(tensor out, double value);
/* to = from (WRITE) or to += from (UPDATE), rounded once. Any formats without gaps; F32 and BF16 rows without gaps. */
op copy_op(tensor to, access_mode to_access, tensor from);
/* out = sum of parts [p, ...] over p, added in FP32 in order, rounded once. Parts have no gaps and as many elements as
 * out, whose rows have no gaps. */
op sum_parts_op(tensor out, tensor parts);
/* out [1] F64 (+)= sum of x F64, in order. */
op sum_op(tensor out, access_mode out_access, tensor x);

/* tokens, labels [s, b] I32 of samples first_sample + row, at the positions of args->place, in the step of scalars. */
op tokens_op(tensor scalars, tensor tokens, tensor labels, const tokens_args *args);
/* scalars: step += 1, then the learning rate and the bias corrections of that step. */
op step_begin_op(tensor scalars, const step_begin_args *args);
/* amax [n] I32 of a step is stored in history [FP8_HISTORY, n] I32 at the step of scalars, then set to 0. scales [n,
 * FP8_FACTORS] F32 follow from the maximum of the history, or of amax without history, for fp8_format(first + i). */
typedef struct {
    tensor scalars, amax, history, scales;
} fp8_scales_operands;
op fp8_scales_op(fp8_scales_operands o, fp8_scales_args args);
/* squares [EXACT_SUM_WORDS] U64, an exact sum (args.h), += squares of the elements of x. */
op square_sum_op(tensor x, tensor squares);
/* scalars: norm from squares, clip factor, and mean loss from the sum loss [1]. */
op step_clip_op(tensor squares, tensor loss, tensor scalars, const step_clip_args *args);
