/* The tables of CUDA kernels, and kernels that write FP8 values. */
#include "machine/cuda/kernels/compute.h"
#include "machine/cuda/kernels/kernels.h"

#define RUN(constant, name) [constant] = cuda_##name,
static void (*const run[OP_KINDS])(const cuda_call *) = { OPS_COMPUTED(RUN) };
static size_t (*const scratch_of[OP_KINDS])(const cuda_call *) = {
    [OP_MATMUL] = cuda_matmul_scratch,
    [OP_GROUPED_MATMUL] = cuda_matmul_scratch,
    [OP_EMBEDDING_BACKWARD] = cuda_embedding_backward_scratch,
    [OP_NORM_BACKWARD] = cuda_norm_backward_scratch,
    [OP_ATTENTION_FORWARD] = cuda_attention_forward_scratch,
    [OP_ATTENTION_BACKWARD] = cuda_attention_backward_scratch,
    [OP_GELU_BACKWARD] = cuda_gelu_backward_scratch,
    [OP_COLUMN_SUMS] = cuda_column_sums_scratch,
    [OP_CROSS_ENTROPY] = cuda_cross_entropy_scratch,
    [OP_SQUARE_SUM] = cuda_square_sum_scratch,
    [OP_SIGNED_SUMS] = cuda_signed_sums_scratch,
};

cuda_call cuda_call_of(const op *o, void *scratch, size_t bytes, cudaStream_t stream)
{
    cuda_call c = {
        .args = o->args, .name = o->origin.name, .scratch = scratch, .scratch_bytes = bytes, .stream = stream
    };
    for (int i = 0; i < o->operands; i++) {
        c.x[i] = o->operand[i].tensor;
        c.update[i] = o->operand[i].access == UPDATE;
    }
    return c;
}

static size_t plain_scratch_bytes(const op *o)
{
    cuda_call c = cuda_call_of(o, NULL, 0, NULL);
    return scratch_of[o->kind] ? scratch_of[o->kind](&c) : 0;
}

/* Kernels that can write FP8 values: the format, and a mask of the operands that must then be BF16. */
static const struct {
    dtype format;
    unsigned bf16_mask;
} fused[OP_KINDS] = {
    [OP_SWIGLU_FORWARD] = { E4M3, 1 },       [OP_SWIGLU_BACKWARD] = { E5M2, 3 },
    [OP_GEGLU_FORWARD] = { E4M3, 1 },        [OP_GEGLU_BACKWARD] = { E5M2, 3 },
    [OP_SQUARED_RELU_FORWARD] = { E4M3, 1 }, [OP_SQUARED_RELU_BACKWARD] = { E5M2, 3 },
    [OP_GELU_FORWARD] = { E4M3, 3 },         [OP_NORM_FORWARD] = { E4M3, 0x4F },
    [OP_ROPE_BACKWARD] = { E5M2, 1 },
};

/* Returns whether whole heads are rotated, and half a head consists of whole packs. */
static bool rotates_packs(const op *o)
{
    int64_t d = o->operand[0].tensor.dim[3];
    return o->args.rope.width == d && d % 16 == 0;
}

/* Returns whether one kernel computes the operation, with its FP8 output. Depends on shapes and formats alone. */
static bool is_one_kernel(const op *o)
{
    int at = op_encoding(o);
    bool all = at < 0 || fused[o->kind].bf16_mask != 0;
    for (int i = 0; i < at; i++)
        all = all &&
              (!(fused[o->kind].bf16_mask >> i & 1) || !o->operand[i].tensor.dims || o->operand[i].tensor.type == BF16);
    for (int i = ENCODING_CODES; at >= 0 && i <= ENCODING_TRANSPOSED; i++)
        all = all && (!o->operand[at + i].tensor.dims || o->operand[at + i].tensor.type == fused[o->kind].format);
    return all && (at < 0 || o->kind != OP_ROPE_BACKWARD || rotates_packs(o));
}

size_t cuda_scratch_bytes(const op *o)
{
    if (is_one_kernel(o)) return plain_scratch_bytes(o);
    encoded_parts part = encoded_parts_of(o, NULL);
    return encoded_bytes(o) + plain_scratch_bytes(&part.values);
}

static void compute_plain(const op *o, void *scratch, size_t bytes, cudaStream_t stream)
{
    cuda_call c = cuda_call_of(o, scratch, bytes, stream);
    run[o->kind](&c);
}

/* Computes the output in its format in scratch, then converts it to FP8. */
static void compute_encoded(const op *o, char *scratch, size_t bytes, cudaStream_t stream)
{
    encoded_parts part = encoded_parts_of(o, scratch);
    size_t used = encoded_bytes(o);
    if (part.copied.operands) compute_plain(&part.copied, NULL, 0, stream);
    compute_plain(&part.values, scratch + used, bytes - used, stream);
    compute_plain(&part.codes, NULL, 0, stream);
}

void cuda_compute(const op *o, void *scratch, size_t bytes, cudaStream_t stream)
{
    if (is_one_kernel(o)) compute_plain(o, scratch, bytes, stream);
    else compute_encoded(o, scratch, bytes, stream);
}
