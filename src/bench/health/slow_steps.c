/* Slow steps. */
#include "bench/health/slow_steps.h"
#include "base/memory.h"
#include "bench/facts/statistics.h"
#include <stdio.h>

/* Rank number `ranks` stands for all of them, which take as long as the step. */
static double busy_seconds(const case_result *r, int64_t step, int rank)
{
    int64_t ranks = r->given->layout.ranks, i = step * ranks + rank;
    if (rank == ranks) return r->step_seconds[step];
    double busy = r->rank_seconds[i];
    for (int table = RANK_WAITING_TENSOR; table < RANK_TABLES; table++) busy -= r->rank_table[table][i];
    return busy;
}

/* Returns the means over the timed steps, [ranks + 1]; owned by the caller. */
static double *mean_busy_seconds(const case_result *r)
{
    int ranks = r->given->layout.ranks;
    int64_t first = r->given->warmup, steps = r->completed - first;
    double *mean = allocate(ranks + 1, sizeof *mean, "the times of ranks");
    for (int64_t s = first; s < r->completed; s++)
        for (int i = 0; i <= ranks; i++) mean[i] += busy_seconds(r, s, i) / (double)steps;
    return mean;
}

static double excess(const case_result *r, int64_t step, int rank, const double *mean)
{
    double before = step > 0 ? busy_seconds(r, step - 1, rank) - mean[rank] : 0.0;
    return before + busy_seconds(r, step, rank) - mean[rank];
}

/* Returns the rank that was slow in the step, or -1. */
static int slow_rank(const case_result *r, int64_t step, const double *mean)
{
    int ranks = r->given->layout.ranks, slow = -1;
    double most = 0.5 * excess(r, step, ranks, mean);
    for (int i = 0; i < ranks; i++) {
        double own = excess(r, step, i, mean);
        if (own >= most) most = own, slow = i;
    }
    return slow;
}

void slow_steps_find(case_result *r, const char *hosts, size_t stride)
{
    int64_t first = r->given->warmup;
    double median = median_of(r->step_seconds + first, r->completed - first), *mean = mean_busy_seconds(r);
    size_t used = 0, room = sizeof r->slow_step_names;
    r->slow_steps = 0;
    for (int64_t s = first; s < r->completed; s++) {
        char who[64] = "all ranks waited";
        if (r->step_seconds[s] <= SLOW_STEP * median || r->slow_steps++ >= SLOW_STEPS_NAMED) continue;
        int i = slow_rank(r, s, mean);
        if (i >= 0) snprintf(who, sizeof who, "rank %d on %.32s", i, hosts + (size_t)i * stride);
        if (used < room)
            used += (size_t)snprintf(r->slow_step_names + used, room - used, "%s%lld (%.3g times, %s)",
                                     used ? ", " : "", (long long)s, r->step_seconds[s] / median, who);
    }
    free(mean);
}
