/* Report line of a step, in the words of the workload's recipe. */
#pragma once
#include "bench/facts/sink.h"

/* Return the duration of the remaining steps if each takes step_seconds, and the number of the last step if the mean
 * step time stays the same. A soak lasts at least its minutes. */
double steps_seconds_left(const bench_case *c, const step_now *now, double step_seconds);
int64_t steps_last(const bench_case *c, const step_now *now);
void say_step(const case_result *r, const step_now *now);
