/* A deck's planted fault. */
#include "bench/fault.h"
#include "machine/world.h"

fault fault_planted(const bench_case *c)
{
    const planted_fault *f = &c->fault;
    if (f->kind == FAULT_NONE) return (fault){ .kind = FAULT_NONE };
    return (fault){ .kind = f->kind, .operation = op_kind_named(f->operation), .nth = f->nth, .world_rank = f->rank };
}

fault fault_agreed(const bench_case *c, const measure *r)
{
    fault f = fault_planted(c);
    bool struck = f.kind != FAULT_NONE && f.world_rank < c->layout.ranks;
    if (struck && world_rank() == f.world_rank) f = r->fault;
    if (struck) world_broadcast(&f, sizeof f, f.world_rank);
    return f;
}
