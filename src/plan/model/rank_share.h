/* The work of one rank, from the list of parameters. */
#pragma once
#include "plan/model/params.h"

/* Returns the model flops of one step on the rank at mesh coordinates at[], without recomputation: its part of the
 * products, and of the causal half of attention, which context ranks share evenly. It assumes that expert ranks share
 * the tokens evenly. The sum over all ranks is step_model_flops. */
flop_count rank_model_flops(const bench_case *c, const int at[AXES]);
/* Returns the model flops of one step on all ranks: global batch times model_flop_count. */
flop_count step_model_flops(const bench_case *c);
