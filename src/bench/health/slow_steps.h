/* The timed steps that took more than SLOW_STEP times the median, and the rank that was slow in each.
 *
 * A rank is busy in a step while it does not wait for transfers. Its excess is by how much longer than in its mean step
 * it was busy in the step and the one before, to which the host counts the wait for a gather after the optimizer. The
 * rank of the largest excess was slow, if that is at least half of the excess of the two steps' time. Otherwise all
 * ranks waited, as for a slow network. */
#pragma once
#include "bench/health/rank_times.h"

#define SLOW_STEP 1.5
enum { SLOW_STEPS_NAMED = 8 };
typedef struct {
    int64_t count;
    char names[640]; /* of the first: "14 (2.9 times, rank 1 on host), 20 (...)" */
} slow_steps;

/* seconds: [completed] of the slowest rank; the timed steps are those from `first` on. */
typedef struct {
    const double *seconds;
    int64_t first, completed;
    double median; /* of the timed ones */
} step_times;
slow_steps slow_steps_find(const rank_times *t, int ranks, const step_times *s);
