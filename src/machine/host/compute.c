/* The host's tables of kernels. */
#include "machine/host/host.h"

#define RUN(constant, name) [constant] = host_##name,
static void (*const run[OP_KINDS])(const op *, void *scratch) = { OPS_COMPUTED(RUN) };
static size_t (*const scratch_of[OP_KINDS])(const op *) = {
    [OP_MATMUL] = host_matmul_scratch,
    [OP_EMBEDDING_BACKWARD] = host_embedding_backward_scratch,
    [OP_NORM_BACKWARD] = host_norm_backward_scratch,
    [OP_ATTENTION_FORWARD] = host_attention_forward_scratch,
    [OP_ATTENTION_BACKWARD] = host_attention_backward_scratch,
    [OP_CROSS_ENTROPY] = host_cross_entropy_scratch,
};

size_t host_scratch_of(const machine_tuning *t, const op *o)
{
    if (op_is_transfer(o->kind)) return host_transfer_scratch(o);
    return scratch_of[o->kind] ? scratch_of[o->kind](o) : 0;
}

void host_compute(const op *o, void *scratch) { run[o->kind](o, scratch); }
