/* The timed steps that took more than SLOW_STEP times the median, and the rank that was slow in each.
 *
 * A rank is busy in a step while it does not wait for transfers. Its excess is by how much longer than in its mean step
 * it was busy in the step and the one before, to which the host counts the wait for a gather after the optimizer. The
 * rank of the largest excess was slow, if that is at least half of the excess of the two steps' time. Otherwise all
 * ranks waited, as for a slow network. */
#pragma once
#include "bench/facts/result.h"

#define SLOW_STEP 1.5
enum { SLOW_STEPS_NAMED = 8 };

/* Fills slow_steps and slow_step_names. Needs the tables of all ranks, so it runs on rank 0. The name of rank i's host
 * is at hosts + i * stride. */
void slow_steps_find(case_result *r, const char *hosts, size_t stride);
