/* Planted faults of a case. */
#include "bench/check/fault.h"
#include "machine/prove/prove.h"
#include "machine/world.h"
#include <stdio.h>

fault fault_planted(const bench_case *c)
{
    const planted_fault *f = &c->fault;
    if (f->kind == FAULT_NONE) return (fault){ .kind = FAULT_NONE };
    return (fault){ .kind = f->kind, .operation = op_kind_named(f->operation), .nth = f->nth, .world_rank = f->rank };
}

fault fault_agreed(const bench_case *c, const measure *r)
{
    fault f = fault_planted(c);
    int part = f.world_rank - world_part_first();
    bool struck = f.kind != FAULT_NONE && f.world_rank < c->ranks && part >= 0 && part < world_part_ranks();
    if (struck && world_rank() == f.world_rank) f = r->fault;
    if (struck) world_broadcast(&f, sizeof f, f.world_rank);
    return f;
}

/* Matrix products of one name may differ in their access: the first writes a gradient, the next ones add to it. */
static void describe(const op *o, char text[OP_TEXT])
{
    static const char *const access[] = { [READ] = "read", [WRITE] = "written", [UPDATE] = "added to" };
    size_t used = (size_t)snprintf(text, OP_TEXT, "%s %s (%s:", op_kind_name(o->kind),
                                   o->origin.name ? o->origin.name : "", phase_name(o->origin.phase));
    for (int i = 0, n = 0; i < o->operands && used < OP_TEXT; i++)
        if (tensor_present(&o->operand[i].tensor))
            used +=
                (size_t)snprintf(text + used, OP_TEXT - used, "%s %s", n++ ? "," : "", access[o->operand[i].access]);
    if (used < OP_TEXT) snprintf(text + used, OP_TEXT - used, ")");
}

void fault_struck(const bench_case *c, const machine *m, char text[OP_TEXT])
{
    text[0] = 0;
    bool is_struck_rank = c->fault.kind != FAULT_NONE && world_rank() == c->fault.rank;
    if (is_struck_rank && prove_faults(m)) describe(prove_struck(m), text);
}
