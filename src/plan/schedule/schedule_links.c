/* Links of a pipeline. Chunk c of stage p is part c * pipeline + p of the model. A forward goes to the next part, a
 * backward to the previous one. */
#include "plan/schedule/schedule_simulate.h"

static int neighbour_part(const bench_case *c, int stage, const schedule_action *a, int distance)
{
    return a->chunk * c->layout.degree[AXIS_PIPELINE] + stage + (a->verb == FORWARD ? distance : -distance);
}

static bool is_part(const bench_case *c, const schedule_action *a, int part)
{
    return a->verb != BACKWARD_WEIGHT && part >= 0 &&
           part < c->layout.degree[AXIS_PIPELINE] * c->layout.chunks_per_stage;
}

schedule_action neighbour_action(const bench_case *c, int *stage, const schedule_action *a, int distance)
{
    int part = neighbour_part(c, *stage, a, distance), stages = c->layout.degree[AXIS_PIPELINE];
    *stage = part % stages;
    return (schedule_action){ a->verb, part / stages, a->microbatch };
}

int link_in(const bench_case *c, int stage, const schedule_action *a)
{
    int stages = c->layout.degree[AXIS_PIPELINE];
    return is_part(c, a, neighbour_part(c, stage, a, -1)) ? (int)a->verb * stages + stage : NO_LINK;
}

int link_out(const bench_case *c, int stage, const schedule_action *a)
{
    int stages = c->layout.degree[AXIS_PIPELINE], part = neighbour_part(c, stage, a, 1);
    return is_part(c, a, part) ? (int)a->verb * stages + part % stages : NO_LINK;
}
