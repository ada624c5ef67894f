/* What one rank computes, by the list of parameters. */
#pragma once
#include "plan/model/params.h"

/* Model flops of one step of the rank at mesh coordinates at[], an exact integer: own part of the products, half the
 * attention square (a zig-zag of context pieces halves it for every rank), nothing computed again. Expert ranks share
 * the tokens evenly. Summed over all ranks it is the global batch times model_flop_count. */
flop_count rank_model_flops(const bench_case *c, const int at[AXES]);
/* Of one step of all ranks. */
flop_count step_model_flops(const bench_case *c);
