/* One rank's share of the model, by formula: what does not depend on how it is computed. Ranks of one pipeline stage and one
 * tensor rank have equal shares. */
#pragma once
#include "plan/bench_case.h"

/* Parameters held, padding excluded. */
int64_t share_parameters(const bench_case *c, int stage, int tensor);
/* Of them those that all tensor ranks hold alike: the gains of the norms. */
int64_t share_replicated(const bench_case *c, int stage);
/* Model flops of a step (true projections, causal half attention, unpadded vocabulary, no recompute): the ranks' sum is the
 * formula's. Zig-zag context ranks see equally many pairs of query and key. */
double share_model_flops(const bench_case *c, int stage, int tensor);
