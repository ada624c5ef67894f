/* Options of the machine, from the keys of the deck. */
#include "bench/launch/case_machine.h"
#include "base/build_info.h"
#include "machine/world.h"
#include "parallel/mesh.h"
#include "plan/model/sm_shares.h"

transfer_blocks case_blocks(const bench_case *c)
{
    sm_shares r = sm_shares_of(c, 0, 0);
    return (transfer_blocks){ r.link_blocks, r.separate_blocks, r.shared_blocks };
}

machine_options case_machine(const bench_case *c)
{
    return (machine_options){
        .kind = c->backend == BACKEND_CUDA ? MACHINE_CUDA : MACHINE_HOST,
        .hostile = c->order == ORDER_HOSTILE,
        .order_seed = c->order_seed,
        .prove_access = build_debug,
        .world_rank = world_rank(),
        .tuning = { .deterministic = c->deterministic, .own_attention = c->attention == ATTENTION_OWN },
    };
}
