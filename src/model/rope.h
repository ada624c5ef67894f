/* Angles of the rotary position embedding. */
#pragma once
#include "parallel/zigzag.h"
#include "plan/bench_case.h"

/* table [length, head_dim / 2, 2]: cosine and sine of position * frequency for the local positions, computed in double
 * and rounded once. Frequencies base^(-2i/d); with rope_scaling as Llama 3.1 (src/DEFINITIONS.md). */
void rope_table(const model_shape *m, zigzag positions, float *table);
