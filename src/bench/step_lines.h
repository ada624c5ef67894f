/* A step's line, with the words that users of the workload's recipe look for. */
#pragma once
#include "bench/result/result.h"

/* Of a step that has ended, from 0; r->spent_seconds counts it already. */
void say_step(const case_result *r, int64_t step);
