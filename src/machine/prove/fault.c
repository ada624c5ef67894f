/* Faults that a deck plants: which operation is struck, and what is done to it. */
#include "base/fail.h"
#include "machine/queue/machine_state.h"
#include <string.h>

/* drop, stale and repeat of a transfer strike its whole group, so that the result is wrong, not stuck. */
static bool fault_hits_group(const machine *m, const op *o)
{
    const fault *s = &m->fault;
    const struct group *g = o->args.fabric.group;
    return s->transfer_known && s->kind <= FAULT_REPEAT && strcmp(g->axis, s->transfer_axis) == 0 &&
           (int)g->channel == s->transfer_channel && g->first == s->transfer_first &&
           g->sequence - g->step_sequence == s->transfer_sequence;
}

void fault_know_group(machine *m, struct group *g)
{
    for (int i = 0; i < m->groups; i++)
        if (m->group[i] == g) return;
    if (m->groups == MACHINE_GROUPS) FAIL("more than %d groups on one machine", MACHINE_GROUPS);
    g->step_sequence = g->sequence;
    m->group[m->groups++] = g;
}

void fault_step(machine *m)
{
    memset(m->executed, 0, sizeof m->executed);
    for (int i = 0; i < m->groups; i++) m->group[i]->step_sequence = m->group[i]->sequence;
}

/* The struck transfer by its group and its number in the step: the other ranks of the group know it by that. */
static void find_transfer(machine *m, const op *o)
{
    fault *s = &m->fault;
    const struct group *g = o->args.fabric.group;
    if (s->transfer_known) return;
    strncpy(s->transfer_axis, g->axis, sizeof s->transfer_axis - 1);
    s->transfer_channel = (int)g->channel;
    s->transfer_first = g->first;
    s->transfer_sequence = g->sequence - g->step_sequence;
    s->transfer_known = m->fault_found = true;
}

fault_kind fault_now(machine *m, const op *o)
{
    const fault *s = &m->fault;
    if (s->kind == FAULT_NONE || m->now.step < 0 || o->kind != s->operation) return FAULT_NONE;
    bool here = ++m->executed[o->kind] == s->nth && m->options.world_rank == s->world_rank;
    bool by_group = op_is_transfer(o->kind) && s->kind <= FAULT_REPEAT;
    if (by_group && here) find_transfer(m, o);
    return (by_group ? fault_hits_group(m, o) : here) ? s->kind : FAULT_NONE;
}

static bool is_float(dtype type) { return type != I32 && type != U64; }

/* The same small operation on everything the op wrote (or on its first written operand only); returns on how many. */
static int fault_written(queue *q, const op *o, op_kind kind, bool with_updates, bool first_only)
{
    int struck = 0;
    op extra = { .kind = kind, .operands = 1, .origin = o->origin };
    for (int i = 0; i < o->operands && !(first_only && struck); i++) {
        const operand *x = &o->operand[i];
        if (!tensor_present(&x->tensor) || x->access == READ || (x->access == UPDATE && !with_updates)) continue;
        if (kind == OP_FLIP && !is_float(x->tensor.type)) continue;
        extra.operand[0] = (operand){ x->tensor, kind == OP_FILL ? WRITE : UPDATE };
        if (kind == OP_SCALE) extra.args.scale.factor = 2.0;
        if (kind == OP_FLIP) extra.args.flip.index = tensor_elements(&x->tensor) / 2;
        submit_run(q, &extra);
        struck++;
    }
    return struck;
}

/* A fill of nothing holds the place of an op that is not executed, so that who waits for it still follows what it
 * followed. */
static void fault_out(queue *q, const op *o)
{
    op nothing = { .kind = OP_FILL, .origin = o->origin };
    submit_run(q, &nothing);
}

bool fault_submit(queue *q, op *o, fault_kind kind)
{
    switch (kind) {
    case FAULT_DROP:
        fault_out(q, o);
        fault_written(q, o, OP_FILL, false, false);
        return true;
    case FAULT_STALE: fault_out(q, o); return true;
    case FAULT_REPEAT:
        submit_run(q, o);
        submit_number(o);
        submit_run(q, o);
        return true;
    case FAULT_SCALE: submit_run(q, o); return fault_written(q, o, OP_SCALE, true, false) > 0;
    case FAULT_FLIP: submit_run(q, o); return fault_written(q, o, OP_FLIP, true, true) > 0;
    case FAULT_NONE:
    case FAULT_UNWAIT: break;
    }
    submit_run(q, o);
    return false;
}

void machine_plant(machine *m, const fault *s) { m->fault = *s; }
int64_t machine_faults(const machine *m) { return m->faults; }
const op *machine_struck(const machine *m) { return &m->struck; }

bool machine_fault_found(const machine *m, fault *s)
{
    if (m->fault_found) *s = m->fault;
    return m->fault_found;
}
