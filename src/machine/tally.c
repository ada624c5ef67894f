/* Counts and seconds. */
#include "machine/tally.h"
#include "machine/fabric.h"
#include <string.h>

void tally_clear(tally *t) { memset(t, 0, sizeof *t); }

void tally_clear_seconds(tally *t)
{
    for (int k = 0; k < OP_KINDS; k++) t->kind[k].seconds = 0.0;
    for (int p = 0; p < PHASES; p++) t->phase_seconds[p] = 0.0;
    for (int a = 0; a < t->axes; a++) t->axis[a].exposed_seconds = 0.0;
    t->idle_seconds = t->run_seconds = t->dispatch_seconds = 0.0;
}

static tally_axis *axis_row(tally *t, const char *axis)
{
    for (int i = 0; i < t->axes; i++)
        if (strcmp(t->axis[i].axis, axis) == 0) return &t->axis[i];
    if (t->axes < TALLY_AXES) t->axis[t->axes++].axis = axis;
    return &t->axis[t->axes - 1];
}

void tally_submit(tally *t, const op *o)
{
    tally_row *row = &t->kind[o->kind];
    double bytes = op_bytes(o);
    row->count++;
    row->flops += op_flops(o);
    row->bytes += bytes;
    if (!op_is_transfer(o->kind)) return;
    tally_axis *axis = axis_row(t, o->args.fabric.group->axis);
    axis->messages++;
    axis->bytes += bytes;
}

void tally_seconds(tally *t, const op *o, double seconds)
{
    t->kind[o->kind].seconds += seconds;
    if (!op_is_transfer(o->kind)) t->phase_seconds[o->origin.phase] += seconds;
}

void tally_exposed(tally *t, const op *o, double seconds)
{
    axis_row(t, o->args.fabric.group->axis)->exposed_seconds += seconds;
}
