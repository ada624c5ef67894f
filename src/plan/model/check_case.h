/* Cases derived from a case: its check model, and its reference on one rank. */
#pragma once
#include "plan/bench_case.h"

/* Returns the check model of a case: same family, mesh, schedule, precision, backend, sharding, recompute; kv_heads
 * max(2,T), heads 2 kv_heads (or kv_heads), head_dim 16, ffn 64 T, vocabulary 128 T - 3, sequence about 64 T C, the
 * fewest layers L >= 2 that fill the pipeline's chunks, microbatch 1, microbatches max(2, P), 4 steps, no warm-up,
 * learning rate 1e-3 x 2 / L, check off, uniform tokens. A planted fault stays. */
enum { CHECK_STEPS = 4 };
bench_case check_case(const bench_case *c);
/* Returns the case's reference: the same case on one rank of the host, in submitted order, without fault; all degrees
 * 1, sharding and recompute none, schedule 1f1b; FP32 if fp32. Global batch and microbatch are those of the case, the
 * padded vocabulary is that of one rank. If not FP32, it rounds as the case's tensor and context ranks do. */
bench_case single_rank_case(const bench_case *c, bool fp32);
/* Returns the number of data ranks whose experts have separate scales, as with current scaling; 0: all experts share
 * one scale. Tensor and context ranks always share scales. */
int imitated_experts(const bench_case *c);
/* Returns whether one rank can round as the case's ranks do. It cannot with current scaling if a group of expert ranks
 * ends within a data rank, because an expert's rows then have two scales. */
bool can_be_imitated(const bench_case *c);
