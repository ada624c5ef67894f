/* Limits of how far results may be from the host's: those that op_rules.c names, and those of sums. */
#pragma once
#include "machine/op/op.h"

op_limit limit_of_product, limit_of_router, limit_of_unpermute_backward, limit_of_embedding_backward,
    limit_of_column_sums, limit_of_gelu_backward, limit_of_rows, limit_of_norm_backward, limit_of_attention_forward,
    limit_of_attention_backward, limit_of_scalars, limit_of_doubles, limit_of_signed_sums;

/* Returns the bias that a product adds; not present: none. What a product adds to is its first operand, as it was. */
const tensor *product_bias(const op *o);

/* How far a sum of `ranks` parts may be from the sum in double. magnitudes: the sum of the parts' magnitudes. */
double limit_of_rank_sum(const op_home *home, dtype type, int ranks, double result, double magnitudes);

/* Returns how large a sum of errors with random signs may be among so many comparisons, in units of the root of the sum
 * of b^2, where b bounds an error: sqrt(2 ln(2 comparisons / 1e-6)). Signs are independent, so by Hoeffding's
 * inequality (1963, theorem 2) the sum exceeds t with probability 2 exp(-t^2 / (2 sum of b^2)) at most, here 1e-6 /
 * comparisons: one false alarm in a million runs. For a product b is half a unit in the last place of an element, plus
 * `absolute` of limit_of_product times C's largest value, and where the product is rounded before C or a bias is added,
 * half a unit of the product: at most twice the larger of the half units of the sum and of what was added. Rounding in
 * double adds less than 2^-20 of b. */
double signed_sum_limit(double comparisons);
