/* Limits of the difference between results and the host: those that op_rules.c names, and those of sums. */
#pragma once
#include "machine/op/op.h"

op_limit limit_of_product, limit_of_router, limit_of_unpermute_backward, limit_of_embedding_backward,
    limit_of_column_sums, limit_of_gelu_backward, limit_of_rows, limit_of_norm_backward, limit_of_attention_forward,
    limit_of_attention_backward, limit_of_scalars, limit_of_doubles, limit_of_signed_sums;

/* Returns the bias that a product adds, or an absent tensor. With UPDATE a product adds to its first operand. */
const tensor *product_bias(const op *o);

/* Returns how far a sum of `ranks` parts may be from the sum in double. magnitudes: sum of the parts' magnitudes. */
double limit_of_rank_sum(const op_home *home, dtype type, int ranks, double result, double magnitudes);

/* Returns the largest sum of errors with random signs to expect in any of `comparisons` comparisons: sqrt(2 ln(2
 * comparisons / 1e-6)), in units of the root of the sum of b^2, where b bounds an error. Signs are independent, so by
 * Hoeffding's inequality (1963, theorem 2) the sum exceeds t with a probability of at most 2 exp(-t^2 / (2 sum of
 * b^2)), here (1e-6 / comparisons): one false alarm in a million runs. For a product, b is half a unit in the last
 * place of an element, plus `absolute` of limit_of_product times C's largest value. If the product is rounded before C
 * or a bias is added, b also has half a unit of the product, at most twice the larger of the half units of the sum and
 * of the added value. Rounding in double adds less than 2^-20 of b. */
double signed_sum_limit(double comparisons);
