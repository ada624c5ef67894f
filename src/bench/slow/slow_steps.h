/* The timed steps that took more than SLOW_STEP times the median, and the rank that was slow in each.
 *
 * A rank is busy in a step while it does not wait for transfers. The host counts the wait for a gather after the
 * optimizer to the step before, so a rank's excess is taken over both steps: by how much longer it was busy than twice
 * its mean of the quiet steps, which are not slow and come before none that is. The rank of the largest excess was
 * slow, if that is at least half of what the step took longer than the median. Otherwise all ranks waited, as for the
 * network. */
#pragma once
#include "bench/result/result.h"

#define SLOW_STEP 1.5
enum { SLOW_STEPS_NAMED = 8 };

/* Fills slow_steps and slow_step_names. Needs the tables of all ranks, so it runs on rank 0. The name of rank i's host
 * is at hosts + i * stride. */
void slow_steps_find(case_result *r, const char *hosts, size_t stride);
