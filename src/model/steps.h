/* Kinds of steps, and the shapes of what they make. Operands are listed in the order of a step's reads and makes.
 * Tensor parallelism shows only in the conjugate pairs of the products. */
#pragma once
#include "model/step_call.h"

/* norm_steps.c. The residual stream is added up and normed: reads what it is the sum of, or nothing, where the layer
 * before left that; makes the sum, its norm and its row statistics. */
enum { NORM_SUM, NORM_OUT, NORM_STATISTICS };
extern const step_kind rms_norm;
tensor residual_shape(const rank_extents *n);       /* [s/T, b, h] */
tensor row_statistics_shape(const rank_extents *n); /* [s/T b] F32 */

/* product_steps.c. Column-parallel: reads [s/T, b, k], makes the product of what all tensor ranks have of it, [s, b,
 * n]. Row-parallel: reads [s, b, k], makes [s/T, b, n], summed over the tensor ranks. */
extern const step_kind column_product, row_product;
/* The halves of a column-parallel product's backward, the second after step_gather_input. */
void column_input_gradient(step_call *c);
void column_weight_gradient(step_call *c);
tensor logits_shape(const rank_extents *n); /* [s, b, V/T] */

/* attention_steps.c. Rotation: of queries and keys in place of the fused ones. Attention: reads the fused queries, keys
 * and values, makes its output and log-sum-exp. */
extern const step_kind rotation, causal_attention;
tensor fused_heads_shape(const rank_extents *n);     /* [s, b, (heads + 2 kv_heads)/T d] */
tensor heads_shape(const rank_extents *n);           /* [s, b, heads/T d] */
tensor head_statistics_shape(const rank_extents *n); /* [b, heads/T, s] F32 */

/* mlp_steps.c. Reads gate and up, makes silu(gate) * up. */
extern const step_kind swiglu;
tensor gate_up_shape(const rank_extents *n); /* [s, b, 2 ffn/T] */
tensor ffn_shape(const rank_extents *n);     /* [s, b, ffn/T] */
