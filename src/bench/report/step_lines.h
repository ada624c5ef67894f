/* A step's line, with the words that users of the workload's recipe look for. */
#pragma once
#include "bench/facts/result.h"

/* What the steps behind this one take, if each takes so many seconds; which is the last of them, if they take the mean
 * of those that there were. Of a soak both follow from its minutes. */
double steps_seconds_left(const case_result *r, int64_t step, double step_seconds);
int64_t steps_last(const case_result *r, int64_t step);
/* Of a step that has ended, from 0; r->spent_seconds counts it already. */
void say_step(const case_result *r, int64_t step);
