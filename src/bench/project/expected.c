/* Expected seconds of all timed steps. */
#include "bench/project/expected.h"
#include "bench/project/project.h"
#include <string.h>

/* Waiting for other stages counts as exposed time of the pipeline axis. */
static double exposed_on(const projection *p, const char *axis)
{
    const tally *t = &p->own;
    if (strcmp(axis, "pipeline") == 0) return projected_bubble(p, t);
    for (int i = 0; i < t->axes; i++)
        if (strcmp(t->axis[i].axis, axis) == 0) return t->axis[i].exposed_seconds;
    return 0.0;
}

void expect_steps(case_result *r, const machine_sheet *s)
{
    projection p;
    expected_steps *e = &r->seen.expected;
    const tally *measured = &r->seen.tally;
    double steps = (double)(r->seen.completed - r->given->warmup);
    if (!project_case(r->given, s, NULL, &p, e->why, sizeof e->why)) return;
    e->seconds = p.seconds, e->least = p.least, e->most = p.most;
    for (int i = 0; i < PHASES; i++) e->phase[i] = steps * p.own.phase_seconds[i];
    for (int i = 0; i < measured->axes; i++) e->exposed[i] = steps * exposed_on(&p, measured->axis[i].axis);
}
