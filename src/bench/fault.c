/* A deck's planted fault. */
#include "bench/fault.h"
#include "machine/world.h"

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
