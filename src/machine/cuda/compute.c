/* The CUDA machine's table of kernels. */
#include "base/fail.h"
#include "machine/cuda/cuda.h"
#include "machine/cuda/kernels.h"

typedef struct {
    void (*run)(const cuda_call *);
    size_t (*scratch)(const cuda_call *);
} kernel;

static const kernel kernels[OP_KINDS] = {
    [OP_MATMUL] = { cuda_matmul, cuda_matmul_scratch },
    [OP_EMBEDDING_FORWARD] = { cuda_embedding_forward, NULL },
    [OP_EMBEDDING_BACKWARD] = { cuda_embedding_backward, cuda_embedding_backward_scratch },
    [OP_NORM_FORWARD] = { cuda_norm_forward, NULL },
    [OP_NORM_BACKWARD] = { cuda_norm_backward, cuda_norm_backward_scratch },
    [OP_ROPE_FORWARD] = { cuda_rope_forward, NULL },
    [OP_ROPE_BACKWARD] = { cuda_rope_backward, NULL },
    [OP_ATTENTION_FORWARD] = { cuda_attention_forward, cuda_attention_forward_scratch },
    [OP_ATTENTION_BACKWARD] = { cuda_attention_backward, cuda_attention_backward_scratch },
    [OP_ATTENTION_MERGE] = { cuda_attention_merge, NULL },
    [OP_ADD] = { cuda_add, NULL },
    [OP_SWIGLU_FORWARD] = { cuda_swiglu_forward, NULL },
    [OP_SWIGLU_BACKWARD] = { cuda_swiglu_backward, NULL },
    [OP_CROSS_ENTROPY] = { cuda_cross_entropy, cuda_cross_entropy_scratch },
    [OP_ADAMW] = { cuda_adamw, NULL },
    [OP_INITIALIZE] = { cuda_initialize, NULL },
    [OP_FILL] = { cuda_fill, NULL },
    [OP_COPY] = { cuda_copy, NULL },
    [OP_SUM] = { cuda_sum, NULL },
    [OP_TOKENS] = { cuda_tokens, NULL },
    [OP_STEP_BEGIN] = { cuda_step_begin, NULL },
    [OP_SQUARE_SUM] = { cuda_square_sum, cuda_square_sum_scratch },
    [OP_STEP_CLIP] = { cuda_step_clip, NULL },
    [OP_SCALE] = { cuda_scale, NULL },
    [OP_FLIP] = { cuda_flip, NULL },
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

size_t cuda_scratch_bytes(const op *o)
{
    cuda_call c = cuda_call_of(o, NULL, 0, NULL);
    return kernels[o->kind].scratch ? kernels[o->kind].scratch(&c) : 0;
}

void cuda_compute(const op *o, void *scratch, size_t bytes, cudaStream_t stream)
{
    char what[OP_TEXT];
    cuda_call c = cuda_call_of(o, scratch, bytes, stream);
    if (!kernels[o->kind].run) FAIL("%s: the CUDA machine has no kernel for it", op_describe(o, what, sizeof what));
    kernels[o->kind].run(&c);
}
