/* Angles of the rotary position embedding. */
#pragma once
#include "plan/bench_case.h"

/* table [count, head_dim / 2, 2]: cosine and sine of position * frequency for positions first.., computed in double and
 * rounded once. Frequencies base^(-2i/d); with rope_scaling as Llama 3.1 (src/DEFINITIONS.md). */
void rope_table(const model_shape *m, int64_t first, int64_t count, float *table);
