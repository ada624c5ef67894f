/* Search for slow steps. */
#include "bench/health/slow_steps.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const rank_times *times;
    int ranks;
    const double *step, *mean; /* mean: [ranks + 1] mean busy seconds of the timed steps */
} look;

/* Rank number `ranks` stands for all ranks together: its busy time is the step time. */
static double busy_seconds(const look *l, int64_t step, int rank)
{
    int64_t i = step * l->ranks + rank;
    if (rank == l->ranks) return l->step[step];
    double busy = l->times->step[i];
    for (int table = RANK_EXPOSED_TENSOR; table < RANK_TABLES; table++) busy -= l->times->table[table][i];
    return busy;
}

/* Returns the means over the timed steps, [ranks + 1]; owned by the caller. */
static double *mean_busy_seconds(const look *l, int64_t first, int64_t completed)
{
    double *mean = allocate(l->ranks + 1, sizeof *mean, "the times of ranks");
    for (int64_t s = first; s < completed; s++)
        for (int i = 0; i <= l->ranks; i++) mean[i] += busy_seconds(l, s, i) / (double)(completed - first);
    return mean;
}

static double excess(const look *l, int64_t step, int rank)
{
    double before = step > 0 ? busy_seconds(l, step - 1, rank) - l->mean[rank] : 0.0;
    return before + busy_seconds(l, step, rank) - l->mean[rank];
}

/* Returns the rank that was slow in the step, or -1. */
static int slow_rank(const look *l, int64_t step)
{
    int slow = -1;
    double most = 0.5 * excess(l, step, l->ranks);
    for (int i = 0; i < l->ranks; i++) {
        double own = excess(l, step, i);
        if (own >= most) most = own, slow = i;
    }
    return slow;
}

slow_steps slow_steps_find(const rank_times *t, int ranks, const step_times *of)
{
    slow_steps found = { .count = 0 };
    look l = { t, ranks, of->seconds, NULL };
    double *mean = mean_busy_seconds(&l, of->first, of->completed);
    size_t used = 0, room = sizeof found.names;
    l.mean = mean;
    for (int64_t s = of->first; s < of->completed; s++) {
        char who[64] = "all ranks waited";
        double times = of->seconds[s] / of->median;
        if (of->seconds[s] <= SLOW_STEP * of->median || found.count++ >= SLOW_STEPS_NAMED) continue;
        int i = slow_rank(&l, s);
        if (i >= 0) snprintf(who, sizeof who, "rank %d on %.32s", i, t->work[i].host);
        if (used < room)
            used += (size_t)snprintf(found.names + used, room - used, "%s%lld (%.3g times, %s)", used ? ", " : "",
                                     (long long)s, times, who);
    }
    free(mean);
    return found;
}
