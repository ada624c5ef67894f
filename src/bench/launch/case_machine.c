/* From what a deck says of the machine to the machine's own options. */
#include "bench/launch/case_machine.h"
#include "base/build_info.h"
#include "machine/world.h"
#include "parallel/mesh.h"

/* Transfers of tensor and expert, which use one queue, of context, and of all other groups in turn. */
machine_room case_room(const bench_case *c)
{
    const int *n = c->layout.degree;
    return (machine_room){ .multiprocessors = c->layout.ranks > 1 ? c->transfer_sms : 0,
                           .links = n[AXIS_PIPELINE] > 1 ? LINKS : 0,
                           .groups = 1 + (n[AXIS_TENSOR] > 1 || c->layout.expert > 1) + (n[AXIS_CONTEXT] > 1) };
}

machine_options case_machine(const bench_case *c)
{
    return (machine_options){
        .kind = c->backend == BACKEND_CUDA ? MACHINE_CUDA : MACHINE_HOST,
        .hostile = c->order == ORDER_HOSTILE,
        .order_seed = c->order_seed,
        .prove_access = build_debug,
        .world_rank = world_rank(),
        .tuning = { .deterministic = c->deterministic,
                    .own_attention = c->attention == ATTENTION_OWN,
                    .transfer_multiprocessors = c->layout.ranks > 1 ? c->transfer_sms : 0 },
    };
}
