/* One filler per computing operation: a pure function that makes the op, or notes in it what it lacks. submit.h has it
 * run. rows = positions x microbatch rows, position slowest. */
#pragma once
#include "machine/op/op.h"

/* c[m, n] = a[m, k] b[k, n] (WRITE) or c += a b inside the product (UPDATE). Any view with one unit stride.
 * FP32 accumulation, rounded once to c's type; a GPU may round a BF16 product before it adds it to c (limits.c). a, b:
 * both F32 or both BF16; c: F32, or BF16 if they are. */
op matmul_op(tensor c, access_mode c_access, tensor a, tensor b);
/* FP8 codes, E4M3 or E5M2 but not both E5M2, give the product of their values, over both scales. As GPUs want them,
 * rows of a and columns of b have no gaps; rows, columns and k are multiples of FP8_ALIGNMENT where they lie one after
 * the other; c is BF16 or F32. Sums of two E4M3 may keep fewer bits than FP32 if a machine is faster so. */
enum { FP8_ALIGNMENT = 16 };
/* c = a b + bias, rounded as above; bias [n], of c's type, or absent. Rows of c have no gaps; of FP8 codes c is BF16.
 */
op matmul_bias_op(tensor c, tensor a, tensor b, tensor bias);

/* sum = x + delta, rounded to x's type; without delta x is the sum. RMSNorm: out = sum * rstd * gain; rstd [rows] F32 =
 * 1 / sqrt(mean(sum^2) + epsilon). With bias and mean LayerNorm: out = (sum - mean) * rstd * (1 + gain) + bias; mean
 * [rows] F32, rstd = 1 / sqrt(mean((sum - mean)^2) + epsilon). x to out [rows, h]; gain, bias [h]. */
typedef struct {
    tensor x, delta, gain, sum, out, rstd, bias, mean;
} norm_forward_operands;
op norm_forward_op(norm_forward_operands o, float epsilon);

/* dx (+)= derivative of the norm (UPDATE adds to the residual's gradient and rounds once); gain_gradient F32 [h] (+)=,
 * and bias_gradient, with mean. x [rows, h] is the norm's input. Zhang & Sennrich 2019; with mean Ba et al. 2016. */
typedef struct {
    tensor d_out, x, rstd, gain, dx, gain_gradient, mean, bias_gradient;
    access_mode dx_access, gain_access, bias_access;
} norm_backward_operands;
op norm_backward_op(norm_backward_operands o);

/* Rotates half-split pairs of x [s, b, heads, d] in place by table [s, d/2, 2] F32 (cosine, sine), or back. */
op rope_forward_op(tensor x, tensor table);
op rope_backward_op(tensor x, tensor table);

/* Attention of q [s, b, heads, d] over k, v [t, b, kv_heads, d]; causal: of t >= s keys query i sees 0 .. i + t - s,
 * else all. out like q (may be a strided view); lse [b, heads, s] F32 = log sum exp of the scaled scores.
 * Blockwise: no s x t memory (Dao 2023, algorithm 1). */
typedef struct {
    tensor q, k, v, out, lse;
} attention_forward_operands;
op attention_forward_op(attention_forward_operands o, attention_args args);
/* dq; dk and dv (WRITE), or F32 and added to (UPDATE), in q's type or F32. */
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

/* out [rows, f] = gelu(gate) * up, the tanh approximation; the rest as swiglu. */
op geglu_forward_op(tensor gate_up, tensor out);
op geglu_backward_op(tensor gate_up, tensor d_out, tensor d_gate_up);

/* As matmul_op, for each g: c[g, m, n] = or += a[g, m, k] b[g, k, n]; each matrix has one unit stride, as all g. */
op grouped_matmul_op(tensor c, access_mode c_access, tensor a, tensor b);

/* The two experts of each token, and where its rows lie in the experts' buffers (args.h, router_args). logits [n, E],
 * rows = positions x sequences. order [groups, n / groups] I32: the rows of each group, absent: one group. choices [n,
 * 2] I32: the two largest logits, ties to the lower expert: e, or -1 - e of a dropped choice; with args.given they are
 * read. In a group an expert's choices of the largest weights fill its rows, in their order, ties to the lower row of
 * logits; the others are dropped. weights [n, 2] F32: softmax over the two logits; place [n, 2] I32: row of the
 * buffers, -1 of a dropped choice; source [rows of all buffers] I32: 2 token + choice, -1 of an unused row. statistics
 * [b, 3, E] F32 (ROUTED_...), of the softmax over all logits. */
typedef struct {
    tensor logits, order, choices, weights, place, source, statistics;
} router_forward_operands;
op router_forward_op(router_forward_operands o, router_args args);
/* d_logits from d_weights [n, 2] F32 and each sequence's balance loss, args.balance x sum over e of statistics 0 x 1.
 * loss [b] F64 += balance losses; load [2, E] F64 += statistics 1 and 2; both may be absent. */
typedef struct {
    tensor logits, choices, d_weights, statistics, d_logits, loss, load;
} router_backward_operands;
op router_backward_op(router_backward_operands o, balance_args args);

/* out [rows, h]: row r is that of token source[r] / 2 of x [n, h], or 0 where source[r] is -1. */
op permute_op(tensor out, tensor x, tensor source);
/* out [n, h]: of a token the sum over its choices of weights [n, 2] x row place of y [rows, h], added in FP32 in order,
 * rounded once; nothing of a dropped choice. weights absent: 1, which is permute's backward. */
op unpermute_forward_op(tensor out, tensor y, tensor weights, tensor place);
/* d_y [rows, h], 0 in unused rows; d_weights [n, 2] F32, 0 of dropped choices. */
typedef struct {
    tensor d_out, y, weights, place, source, d_y, d_weights;
} unpermute_backward_operands;
op unpermute_backward_op(unpermute_backward_operands o);
/* out = max(x, 0)^2; dx = 2 max(x, 0) d_out, which may lie where d_out does. Equal shapes, contiguous. */
op squared_relu_forward_op(tensor x, tensor out);
op squared_relu_backward_op(tensor x, tensor d_out, tensor dx);

/* out [rows, f] = gelu(x + bias), bias [f]. Backward: dx = d_out gelu'(x + bias); bias_gradient F32 [f] (+)= sums. */
op gelu_forward_op(tensor x, tensor bias, tensor out);
typedef struct {
    tensor x, bias, d_out, dx, bias_gradient;
    access_mode bias_access;
} gelu_backward_operands;
op gelu_backward_op(gelu_backward_operands o);

/* Codes of values [m, n] times their scale: [m, n], and transposed, [n, m], or of every groups-th row apart, [groups,
 * n, m / groups]; m is padded to FP8_ALIGNMENT with zeros (fp8_transposed_shape). amax [1] I32 becomes the largest of
 * it and amax_bits of the values; counts [FP8_COUNTS] U64 += what became codes. Each may be absent. */
typedef struct {
    tensor codes, transposed, amax, counts;
} encoding;
op quantize_op(tensor x, encoding to);
/* The operation with codes of its output as its format has it: of norm_forward, the activations and their gradients in
 * place of it; of rope_backward of `whole`, [s, b, heads, d] without gaps, of which x is the first heads or their
 * starts, and which stays as it is; of norm_backward beside dx. Without codes in `to` the operation as it is. */
op encode_op(op o, encoding to);
op encode_rotated_op(op o, tensor whole, encoding to);
/* out = codes x [m, n], or such of groups, transposed, as quantize_op leaves them. */
op transpose_op(tensor out, tensor x);
/* groups 0: [n, padded m]; else [groups, n, padded m]. No data. */
tensor fp8_transposed_shape(dtype type, int64_t groups, int64_t m, int64_t n);

/* sums F32 [n] or [groups, n] without gaps (+)= sums of columns of x, whose rows are as many for each group, one group
 * after another: the gradient of what was added to all rows of a group. */
op column_sums_op(tensor x, tensor sums, access_mode sums_access);

/* out [s, b, h] = table [V/T, h] rows of tokens [s, b] held here (vocabulary rows first..), else 0. With positions
 * [.., h], a row that is held is added to that of its place in the sequence, in FP32, rounded once.
 * Backward: per row an FP32 sum over its tokens in position order, then one rounded add (UPDATE) or store (WRITE). */
typedef struct {
    tensor tokens, table, out, positions;
} embedding_forward_operands;
op embedding_forward_op(embedding_forward_operands o, embedding_args args);
op embedding_backward_op(tensor tokens, tensor d_out, tensor gradient, access_mode gradient_access, int64_t first);

/* Vocabulary-parallel cross-entropy of logits [s, b, V/T]. Part 1: partial [s, b, 3] F32 = (max, sum exp(x - max),
 * own label's logit or 0), columns >= valid masked. Part 2: from partials [T, s, b, 3] of all ranks: loss [b] F64 =
 * sum over positions (WRITE), logits become (softmax - onehot) * gradient_scale in place, masked columns 0. */
typedef struct {
    tensor logits, labels, partial, loss;
    int64_t first, valid;
    float gradient_scale;
} cross_entropy_operands;
op cross_entropy_partial_op(const cross_entropy_operands *o);
op cross_entropy_finish_op(const cross_entropy_operands *o);

/* One bucket: weight from master (WRITE) or, without master, in place (UPDATE). gradient is multiplied by SCALAR_CLIP
 * first. A weight of FP8 codes is the master rounded to BF16, times its scale; amax and counts as quantize_op's, of the
 * new values as BF16 has them. */
typedef struct {
    tensor scalars, gradient, weight, master, first, second, amax, counts;
} adamw_operands;
op adamw_op(const adamw_operands *o, adamw_rule rule);

/* Normal numbers of the definitions into out [rows, columns], whose element (0, 0) is (first_row, first_column) of the
 * logical rows x columns tensor; rows beyond it become 0. */
op initialize_op(tensor out, const initialize_args *args);
/* sum [1] U64 += digest_element (base/numeric.h) of every element of x, any format, without gaps; element i lies at
 * args->place + i. The sum wraps and does not depend on the order of the elements. */
op digest_op(tensor x, tensor sum, const digest_args *args);
/* totals [SUM_SLICES, SLICE_TOTALS] F64 = for each slice of the owners' parts of x (args.h) the sum of its elements
 * with random signs (signed_value, by place and step) and the sum of their squares, in an order that a machine always
 * keeps. x: F32 or BF16 without gaps, each part and args->place multiples of SIGN_RUN. */
op signed_sums_op(tensor x, tensor scalars, tensor totals, const signed_sums_args *args);
op fill_op(tensor out, double value);
/* to = from (WRITE) or to += from (UPDATE), rounded once. Any formats without gaps, or F32 and BF16 rows. */
op copy_op(tensor to, access_mode to_access, tensor from);
/* out = the sum of parts [p, ...], each of out's shape and without gaps, added in FP32 in order, rounded once. Rows of
 * out have no gaps. */
op sum_parts_op(tensor out, tensor parts);
/* out [1] F64 (+)= ordered sum of x F64. */
op sum_op(tensor out, access_mode out_access, tensor x);

/* tokens, labels [s, b] I32 of samples first_sample + row at the positions that args place, step from scalars. */
op tokens_op(tensor scalars, tensor tokens, tensor labels, const tokens_args *args);
/* scalars: step += 1, then learning rate and bias corrections of that step. */
op step_begin_op(tensor scalars, const step_begin_args *args);
/* The amaxes of a step [n] I32 enter the history [FP8_HISTORY, n] I32 at the step of the scalars, and become 0; scales
 * [n, FP8_FACTORS] F32 follow from the history's largest, or without one from the amaxes, of fp8_format(first + i). */
typedef struct {
    tensor scalars, amax, history, scales;
} fp8_scales_operands;
op fp8_scales_op(fp8_scales_operands o, fp8_scales_args args);
/* squares [EXACT_SUM_WORDS] U64, an exact sum (args.h), += squares of x. */
op square_sum_op(tensor x, tensor squares);
/* scalars: norm from squares, clip factor, mean loss from the sum in loss [1]. */
op step_clip_op(tensor squares, tensor loss, tensor scalars, const step_clip_args *args);
