/* A step's line, with the words that users of the workload's recipe look for. */
#pragma once
#include "bench/facts/sink.h"

/* What the steps after this one take, if each takes so many seconds; which is the last of them, if they take the mean
 * of those that there were. Of a soak both follow from its minutes. */
double steps_seconds_left(const bench_case *c, const step_now *now, double step_seconds);
int64_t steps_last(const bench_case *c, const step_now *now);
void say_step(const case_result *r, const step_now *now);
