/* What is trained so far: the one place that says what keeps a case from being trained. */
#pragma once
#include "plan/bench_case.h"

/* Writes what no run trains yet of a case, such as "workload gpt3-175b, precision fp8, expert 8"; empty: all of it is
 * trained. Asks for the workload, the backend and the keys whose row in the table says what is built. cuda_built: its
 * kernels are there. */
void built_reasons(const bench_case *c, bool cuda_built, char out[REASON_LENGTH]);
