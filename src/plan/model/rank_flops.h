/* Model flops of one rank: what it submits by the model formula of flops.h, an exact integer. Summed over all ranks it
 * is the global batch times the formula. */
#pragma once
#include "plan/model/flops.h"

/* Of one step, forward and backward, of the rank at mesh coordinates at[]. True projections, half the attention square
 * (a zig-zag of context pieces halves it for every rank), own rows of the unpadded vocabulary, nothing computed again.
 */
flop_count rank_model_flops(const bench_case *c, const int at[AXES]);
/* Of one step of all ranks. */
flop_count step_model_flops(const bench_case *c);
