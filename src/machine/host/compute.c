/* The table of host kernels by kind of operation. */
#include "machine/host/host.h"

#define RUN(constant, name) [constant] = host_##name,
static void (*const run[OP_KINDS])(const op *, void *scratch) = { OPS_COMPUTED(RUN) };
static size_t (*const scratch_of[OP_KINDS])(const op *) = {
    [OP_MATMUL] = host_matmul_scratch,
    [OP_GROUPED_MATMUL] = host_matmul_scratch,
    [OP_EMBEDDING_BACKWARD] = host_embedding_backward_scratch,
    [OP_NORM_BACKWARD] = host_norm_backward_scratch,
    [OP_ATTENTION_BACKWARD] = host_attention_backward_scratch,
    [OP_GELU_BACKWARD] = host_gelu_backward_scratch,
    [OP_COLUMN_SUMS] = host_column_sums_scratch,
    [OP_CROSS_ENTROPY] = host_cross_entropy_scratch,
};

size_t host_scratch_of(const machine_tuning *t, const op *o)
{
    if (op_is_transfer(o->kind)) return host_transfer_scratch(o);
    return encoded_bytes(o) + (scratch_of[o->kind] ? scratch_of[o->kind](o) : 0);
}

/* Computes the output in its format in scratch, then converts it to FP8. */
static void compute_encoded(const op *o, char *scratch)
{
    encoded_parts part = encoded_parts_of(o, scratch);
    if (part.copied.operands) host_copy(&part.copied, NULL);
    run[o->kind](&part.values, scratch + encoded_bytes(o));
    host_quantize(&part.codes, NULL);
}

void host_compute(const op *o, void *scratch)
{
    if (op_encoding(o) < 0) run[o->kind](o, scratch);
    else compute_encoded(o, scratch);
}
