/* Counts and seconds of operations. */
#include "machine/queue/tally.h"
#include "machine/op/fabric.h"
#include "machine/op/op.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void tally_clear(tally *t) { memset(t, 0, sizeof *t); }

void tally_begin(tally *t, int64_t first_step)
{
    const tally before = *t;
    tally_clear(t);
    t->first_step = first_step;
    t->axes = before.axes;
    for (int a = 0; a < t->axes; a++)
        t->axis[a] = (tally_axis){ .axis = before.axis[a].axis, .first = before.axis[a].first };
}

bool tally_counts(const tally *t, int64_t step) { return step < 0 || step >= t->first_step; }

int tally_axis_of(tally *t, const char *axis)
{
    for (int i = 0; i < t->axes; i++)
        if (strcmp(t->axis[i].axis, axis) == 0) return i;
    if (t->axes < TALLY_AXES) t->axis[t->axes++] = (tally_axis){ .axis = axis, .first = -1 };
    return t->axes - 1;
}

/* Returns the row, which is added if it is new; the last row if there is no more space. */
static tally_transfer *transfer_row(tally *t, const char *axis, op_kind kind)
{
    char name[TALLY_NAME];
    snprintf(name, sizeof name, "%s %s", axis, op_kind_name(kind));
    for (int i = 0; i < t->transfers; i++)
        if (strcmp(t->transfer[i].name, name) == 0) return &t->transfer[i];
    if (t->transfers < TALLY_TRANSFERS) memcpy(t->transfer[t->transfers++].name, name, sizeof name);
    return &t->transfer[t->transfers - 1];
}

static double sent_bytes(const op *o)
{
    const op_rule *r = &op_rules[o->kind];
    double ranks = (double)o->args.fabric.group->size, sent = 0.0;
    if (r->passes) return r->passes * (double)tensor_span(&o->operand[0].tensor) / ranks * (ranks - 1.0);
    for (int i = 0; i < o->operands; i++)
        if (o->operand[i].access == READ) sent += (double)tensor_span(&o->operand[i].tensor);
    return sent;
}

void tally_submit(tally *t, const op *o)
{
    tally_row *row = &t->kind[o->kind];
    double bytes = op_bytes(o);
    row->count++;
    row->flops += op_flops(o);
    row->bytes += bytes;
    if (!op_is_transfer(o->kind)) return;
    const group *g = o->args.fabric.group;
    tally_axis *axis = &t->axis[tally_axis_of(t, g->axis)];
    if (o->kind != OP_EXCHANGE && (axis->first < 0 || g->first < axis->first)) axis->first = g->first;
    axis->messages++;
    axis->bytes += bytes;
    axis->sent += sent_bytes(o);
    tally_transfer *x = transfer_row(t, g->axis, o->kind);
    x->messages++;
    x->bytes += op_rules[o->kind].passes ? sent_bytes(o) : fmax(sent_bytes(o), bytes - sent_bytes(o));
}

size_t tally_sum_bytes(const op *o)
{
    size_t bytes = tensor_span(&o->operand[0].tensor);
    bool adds = o->kind == OP_REDUCE_SCATTER || o->kind == OP_ALL_REDUCE;
    return adds ? 2 * ((bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT) : 0;
}

int64_t tally_operations(const tally *t)
{
    int64_t count = 0;
    for (int k = 0; k < OP_KINDS; k++) count += t->kind[k].count;
    return count;
}

double tally_flops(const tally *t)
{
    double flops = 0.0;
    for (int k = 0; k < OP_KINDS; k++) flops += t->kind[k].flops;
    return flops;
}

void tally_seconds(tally *t, op_kind kind, const char *axis, phase p, double seconds)
{
    t->kind[kind].seconds += seconds;
    if (!axis) t->phase_seconds[p] += seconds;
    else {
        tally_transfer *x = transfer_row(t, axis, kind);
        t->axis[tally_axis_of(t, axis)].seconds += seconds;
        x->seconds += seconds;
        x->bytes_per_second = x->bytes / fmax(x->seconds, 1e-9);
    }
}
