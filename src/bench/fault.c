/* A deck's planted fault. */
#include "bench/fault.h"
#include "machine/world.h"
#include <stdio.h>

fault fault_of(const bench_case *c, mesh *m, const machine_options *on)
{
    const planted_fault *f = &c->fault;
    fault s = { .kind = f->kind };
    if (s.kind == FAULT_NONE) return s;
    s.operation = op_kind_named(f->operation);
    s.nth = f->nth;
    s.world_rank = f->rank;
    trainer_options o = { .machine = *on, .fault = s };
    if (m->takes_part && world_rank() == f->rank) s = trainer_find_fault(c, m, &o);
    if (f->rank < world_ranks()) world_broadcast(&s, sizeof s, f->rank);
    return s;
}

/* What it does to its operands matters: of two products of one name the first writes, the second adds to a gradient. */
static void describe(const op *o, char text[OP_TEXT])
{
    static const char *const access[] = { [READ] = "read", [WRITE] = "written", [UPDATE] = "added to" };
    size_t used = (size_t)snprintf(text, OP_TEXT, "%s %s (%s: ", op_kind_name(o->kind),
                                   o->origin.name ? o->origin.name : "", phase_name(o->origin.phase));
    for (int i = 0; i < o->operands && used < OP_TEXT; i++)
        used += (size_t)snprintf(text + used, OP_TEXT - used, "%s%s", access[o->operand[i].access],
                                 i + 1 < o->operands ? ", " : ")");
}

void fault_struck(const bench_case *c, const machine *m, char text[OP_TEXT])
{
    text[0] = 0;
    if (c->fault.kind == FAULT_NONE || c->fault.rank >= world_ranks()) return;
    if (world_rank() == c->fault.rank && m && machine_faults(m)) describe(machine_struck(m), text);
    world_broadcast(text, OP_TEXT, c->fault.rank);
}
