/* A deck's planted fault. */
#include "bench/strike.h"
#include "machine/world.h"

strike strike_of(const bench_case *c, mesh *m, const machine_options *on)
{
    static const strike_kind kinds[] = {
        [FAULT_NONE] = STRIKE_NONE,     [FAULT_DROP] = STRIKE_DROP,   [FAULT_STALE] = STRIKE_STALE,
        [FAULT_REPEAT] = STRIKE_REPEAT, [FAULT_SCALE] = STRIKE_SCALE, [FAULT_FLIP] = STRIKE_FLIP,
        [FAULT_UNWAIT] = STRIKE_UNWAIT,
    };
    const planted_fault *f = &c->fault;
    strike s = { .kind = kinds[f->kind] };
    if (s.kind == STRIKE_NONE) return s;
    s.operation = op_kind_named(f->operation);
    s.nth = f->nth;
    s.world_rank = f->rank;
    trainer_options o = { .machine = *on, .strike = s };
    if (m->takes_part && world_rank() == f->rank) s = trainer_find_strike(c, m, &o);
    if (f->rank < world_ranks()) world_broadcast(&s, sizeof s, f->rank);
    return s;
}
