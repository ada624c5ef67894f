/* Search for slow steps. */
#include "bench/health/slow_steps.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const rank_times *times;
    const step_times *steps;
    const double *mean; /* mean: [ranks + 1] mean busy seconds of the timed steps */
} busy_times;

/* rank: from 0 at first_rank. For rank number `ranks`, returns the step time. */
static double busy_seconds(const busy_times *b, int64_t step, int rank)
{
    int64_t i = step * b->steps->all_ranks + b->steps->first_rank + rank;
    if (rank == b->steps->ranks) return b->steps->seconds[step];
    double busy = b->times->step[i];
    for (int table = RANK_EXPOSED_TENSOR; table < RANK_TABLES; table++) busy -= b->times->table[table][i];
    return busy;
}

/* Returns the means over the timed steps, [ranks + 1]; owned by the caller. */
static double *mean_busy_seconds(const busy_times *b)
{
    const step_times *t = b->steps;
    double *mean = allocate(t->ranks + 1, sizeof *mean, "the times of ranks");
    for (int64_t s = t->first; s < t->completed; s++)
        for (int i = 0; i <= t->ranks; i++) mean[i] += busy_seconds(b, s, i) / (double)(t->completed - t->first);
    return mean;
}

static double excess(const busy_times *b, int64_t step, int rank)
{
    double before = step > 0 ? fmax(busy_seconds(b, step - 1, rank) - b->mean[rank], 0.0) : 0.0;
    return before + busy_seconds(b, step, rank) - b->mean[rank];
}

/* Returns the rank that was slow in the step, or -1. */
static int slow_rank(const busy_times *b, int64_t step)
{
    int slow = -1;
    double most = 0.5 * excess(b, step, b->steps->ranks);
    for (int i = 0; i < b->steps->ranks; i++) {
        double own = excess(b, step, i);
        if (own >= most) most = own, slow = b->steps->first_rank + i;
    }
    return slow;
}

slow_steps slow_steps_find(const rank_times *t, const step_times *steps)
{
    slow_steps found = { .count = 0 };
    busy_times b = { t, steps, NULL };
    double *mean = mean_busy_seconds(&b);
    size_t used = 0, size = sizeof found.names;
    b.mean = mean;
    for (int64_t s = steps->first; s < steps->completed; s++) {
        char cause[64] = "all ranks waited";
        double ratio = steps->seconds[s] / steps->median;
        if (steps->seconds[s] <= SLOW_STEP * steps->median || found.count++ >= SLOW_STEPS_NAMED) continue;
        int i = slow_rank(&b, s);
        if (i >= 0) snprintf(cause, sizeof cause, "rank %d on %.32s", i, t->work[i].host);
        if (used < size)
            used += (size_t)snprintf(found.names + used, size - used, "%s%lld (%.3g times, %s)", used ? ", " : "",
                                     (long long)s, ratio, cause);
    }
    free(mean);
    return found;
}
