/* Slow steps: timed steps that took more than SLOW_STEP times the median, and the slow rank of each.
 *
 * A rank is busy in a step while it does not wait for transfers. Its excess is its busy time beyond its mean in this
 * step, and in the previous one if that was longer, too: on the host it includes the wait for a gather after the
 * optimizer. (If a shorter one counted, the excess of each rank would be 0 where only two steps are timed.) The rank
 * with the largest excess is slow if this is at least half of the excess of the step time. Otherwise all ranks waited,
 * for example for a slow network. */
#pragma once
#include "bench/health/rank_times.h"

#define SLOW_STEP 1.5
enum { SLOW_STEPS_NAMED = 8 };
typedef struct {
    int64_t count;
    char names[640]; /* the first ones: "14 (2.9 times, rank 1 on host), 20 (...)" */
} slow_steps;

/* seconds: [completed] of the slowest rank; the timed steps start at `first`. The ranks first_rank, ...,
 * first_rank + ranks - 1 are judged, out of all_ranks in a row of the tables. */
typedef struct {
    const double *seconds;
    int64_t first, completed;
    double median; /* of the timed steps */
    int first_rank, ranks, all_ranks;
} step_times;
slow_steps slow_steps_find(const rank_times *t, const step_times *s);
