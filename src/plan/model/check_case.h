/* Cases derived from a case: its check model, and what one rank alone computes as the reference. */
#pragma once
#include "plan/bench_case.h"

/* The check model of a case: same family, mesh, schedule, precision, backend, sharding, recompute;
 * kv_heads max(2,T), heads 2 kv_heads, head_dim 16, ffn 64 T, vocabulary 128 T - 3, sequence 64 T C,
 * layers L the fewest, at least 2, that fill the chunks of the pipeline, microbatch 1, microbatches max(2, P). 4
 * steps, no warmup, learning rate 1e-3 x 2 / L. check is off; tokens are uniform. The fault stays. */
enum { CHECK_STEPS = 4 };
bench_case check_case(const bench_case *c);
/* The same case on one rank (all degrees 1, sharding none, recompute none, schedule 1f1b), FP32 if fp32:
 * what the reference computes: on the host, in submitted order, healthy. Same global batch, all of it in microbatches
 * of microbatch. Padded vocabulary follows the single rank. In the case's own precision it rounds as the case's
 * tensor and context ranks do. */
bench_case single_rank_case(const bench_case *c, bool fp32);
/* Data ranks between which current scaling gives the experts scales of their own, since tensor and context ranks share
 * theirs; 0: all experts have one. */
int imitated_experts(const bench_case *c);
/* Can one rank round as the case's ranks do? Not with current scaling if a group of expert ranks ends within a data
 * rank: an expert's rows then have two scales. */
bool is_imitated(const bench_case *c);
