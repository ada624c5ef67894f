/* Planted faults: the choice of the operation, and the damage to it. */
#include "machine/prove/fault.h"
#include "machine/queue/machine_state.h"
#include <string.h>

/* The faults drop, stale and repeat strike a transfer on all ranks of its group, so that no rank hangs. */
static bool hits_group(const fault *f, const fabric_args *a)
{
    const struct group *g = a->group;
    return f->transfer_known && strcmp(g->axis, f->transfer_axis) == 0 && (int)g->channel == f->transfer_channel &&
           g->first == f->transfer_first && a->sequence - g->step_sequence == f->transfer_sequence;
}

void fault_step(planting *p)
{
    p->executed = 0;
    p->steps++;
}

/* Notes the group and sequence of the struck transfer for the other ranks of the group. */
static void find_transfer(planting *p, const fabric_args *a)
{
    fault *f = &p->fault;
    if (f->transfer_known) return;
    strncpy(f->transfer_axis, a->group->axis, sizeof f->transfer_axis - 1);
    f->transfer_channel = (int)a->group->channel;
    f->transfer_first = a->group->first;
    f->transfer_sequence = a->sequence - a->group->step_sequence;
    f->transfer_known = true;
}

static bool concerns(const planting *p, const machine *m, const op *o)
{
    return p->fault.kind != FAULT_NONE && m->now.step >= 0 && o->kind == p->fault.operation;
}

static bool is_next(const planting *p, const machine *m)
{
    return p->executed + 1 == p->fault.nth && m->options.world_rank == p->fault.world_rank;
}

bool fault_leaves_out(planting *p, const machine *m, const op *o, int64_t wait)
{
    bool drops_wait = p->fault.kind == FAULT_UNWAIT && concerns(p, m, o) && is_next(p, m);
    if (!drops_wait && wait != p->dropped_wait) return false;
    p->unwaited = *o;
    return p->left_out = true;
}

/* Counts the operation and returns the fault that strikes it. */
static fault_kind fault_now(planting *p, const machine *m, const op *o)
{
    if (!concerns(p, m, o)) return FAULT_NONE;
    bool here = is_next(p, m), on_group = op_is_transfer(o->kind) && p->fault.kind <= FAULT_REPEAT;
    p->executed++;
    if (on_group && here) find_transfer(p, &o->args.fabric);
    return (on_group ? hits_group(&p->fault, &o->args.fabric) : here) ? p->fault.kind : FAULT_NONE;
}

static bool is_float(dtype type) { return type != I32 && type != U64; }

/* Submits a small operation on each result of the op, or on the first one only. Returns the number of results. */
static int damage_results(queue *q, const op *o, op_kind kind, bool with_updates, bool first_only)
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

/* Submits an empty fill instead of the op, for which other operations can wait. */
static void submit_placeholder(queue *q, const op *o)
{
    op nothing = { .kind = OP_FILL, .origin = o->origin };
    submit_run(q, &nothing);
}

/* Returns whether the fault changed anything. */
static bool run_struck(queue *q, op *o, fault_kind kind)
{
    switch (kind) {
    case FAULT_DROP:
        submit_placeholder(q, o);
        damage_results(q, o, OP_FILL, false, false);
        return true;
    case FAULT_STALE: submit_placeholder(q, o); return true;
    case FAULT_REPEAT:
        submit_run(q, o);
        submit_number(o);
        submit_run(q, o);
        return true;
    case FAULT_SCALE: submit_run(q, o); return damage_results(q, o, OP_SCALE, true, false) > 0;
    case FAULT_FLIP: submit_run(q, o); return damage_results(q, o, OP_FLIP, true, true) > 0;
    case FAULT_NONE:
    case FAULT_UNWAIT: break;
    }
    submit_run(q, o);
    return false;
}

void fault_run(planting *p, queue *q, op *o)
{
    struct group *g = op_is_transfer(o->kind) ? o->args.fabric.group : NULL;
    if (g && g->step != p->steps) g->step = p->steps, g->step_sequence = o->args.fabric.sequence;
    fault_kind kind = fault_now(p, q->machine, o);
    bool struck = run_struck(q, o, kind);
    if (struck || (kind == FAULT_UNWAIT && p->left_out)) p->strikes++, p->struck = *o;
    p->left_out = false;
}
