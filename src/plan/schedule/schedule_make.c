/* The list of a stage, by the schedule of its case. */
#include "base/fail.h"
#include "plan/schedule/schedule_rules.h"
#include <stdlib.h>

#define RULE(constant, write, name) [constant] = write,
static void (*const rules[])(schedule *s, schedule_place p) = { SCHEDULES(RULE) };

int64_t schedule_first_deferred(const bench_case *c)
{
    int64_t kept = c->layout.degree[AXIS_PIPELINE] > 1 ? c->microbatches - c->head_deferral : c->microbatches;
    return kept > 0 ? kept : 0;
}

bool schedule_defers(const bench_case *c, int64_t microbatch) { return microbatch >= schedule_first_deferred(c); }

static void drain(schedule *s, const bench_case *c, schedule_place p)
{
    if (p.stage < p.stages - 1) return;
    for (int64_t m = schedule_first_deferred(c); m < p.microbatches; m++)
        schedule_add(s, BACKWARD_WEIGHT, p.chunks - 1, m);
}

schedule schedule_make(const bench_case *c, int stage)
{
    schedule_place p = { c->layout.degree[AXIS_PIPELINE], stage, c->layout.chunks_per_stage, c->microbatches };
    int64_t most = (2 * p.chunks + 1) * p.microbatches;
    schedule s = { .action = malloc((size_t)most * sizeof *s.action) };
    if (!s.action) FAIL("no memory for a schedule of %lld actions", (long long)most);
    rules[c->schedule](&s, p);
    drain(&s, c, p);
    return s;
}
