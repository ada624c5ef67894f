/* Slow steps. */
#include "bench/slow/slow_steps.h"
#include "base/fail.h"
#include "bench/result/statistics.h"
#include <stdio.h>
#include <stdlib.h>

static double busy_seconds(const case_result *r, int64_t step, int rank)
{
    int64_t i = step * r->given->layout.ranks + rank;
    double busy = r->rank_seconds[i];
    for (int table = RANK_WAITING_TENSOR; table < RANK_TABLES; table++) busy -= r->rank_table[table][i];
    return busy;
}

static bool is_slow(const case_result *r, int64_t step, double limit)
{
    return step < r->completed && r->step_seconds[step] > limit;
}

/* Returns for each rank the mean of its busy seconds in quiet steps; owned by the caller. */
static double *usual_seconds(const case_result *r, double limit)
{
    int ranks = r->given->layout.ranks;
    double *usual = calloc((size_t)ranks, sizeof *usual), steps = 0.0;
    if (!usual) FAIL("no memory for the times of %d ranks", ranks);
    for (int64_t s = r->given->warmup; s < r->completed; s++) {
        if (is_slow(r, s, limit) || is_slow(r, s + 1, limit)) continue;
        steps += 1.0;
        for (int i = 0; i < ranks; i++) usual[i] += busy_seconds(r, s, i);
    }
    for (int i = 0; i < ranks; i++) usual[i] /= steps;
    return usual;
}

/* Returns the rank that was slow in the step, or -1. */
static int slow_rank(const case_result *r, int64_t step, double median, const double *usual)
{
    double most = 0.5 * (r->step_seconds[step] - median);
    int slow = -1;
    for (int i = 0; i < r->given->layout.ranks; i++) {
        double longer = busy_seconds(r, step, i) - usual[i];
        if (step > 0) longer += busy_seconds(r, step - 1, i) - usual[i];
        if (longer >= most) most = longer, slow = i;
    }
    return slow;
}

void slow_steps_find(case_result *r, const char *hosts, size_t stride)
{
    int64_t first = r->given->warmup;
    double median = median_of(r->step_seconds + first, r->completed - first), limit = SLOW_STEP * median;
    double *usual = usual_seconds(r, limit);
    size_t used = 0, room = sizeof r->slow_step_names;
    r->slow_steps = 0;
    for (int64_t s = first; s < r->completed; s++) {
        char who[64] = "all ranks waited";
        if (!is_slow(r, s, limit) || r->slow_steps++ >= SLOW_STEPS_NAMED) continue;
        int i = slow_rank(r, s, median, usual);
        if (i >= 0) snprintf(who, sizeof who, "rank %d on %.32s", i, hosts + (size_t)i * stride);
        used += (size_t)snprintf(r->slow_step_names + used, room - used, "%s%lld (%.3g times, %s)", used ? ", " : "",
                                 (long long)s, r->step_seconds[s] / median, who);
    }
    free(usual);
}
