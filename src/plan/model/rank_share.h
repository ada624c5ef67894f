/* The work of one rank, from the list of parameters. */
#pragma once
#include "plan/model/params.h"

/* Returns the model flops of one step on the rank at mesh coordinates at[], an exact integer: its part of the products
 * and half of the attention square (the zig-zag of context pieces gives every rank half), without recomputation. Expert
 * ranks share the tokens evenly. Summed over all ranks it is the global batch times model_flop_count. */
flop_count rank_model_flops(const bench_case *c, const int at[AXES]);
/* Returns the model flops of one step on all ranks. */
flop_count step_model_flops(const bench_case *c);
