/* The host's table of kernels. */
#include "base/fail.h"
#include "machine/host/host.h"

typedef struct {
    void (*run)(const op *, void *scratch);
    size_t (*scratch)(const op *);
} kernel;

static const kernel kernels[OP_KINDS] = {
    [OP_MATMUL] = { host_matmul, host_matmul_scratch },
    [OP_EMBEDDING_FORWARD] = { host_embedding_forward, NULL },
    [OP_EMBEDDING_BACKWARD] = { host_embedding_backward, host_embedding_backward_scratch },
    [OP_NORM_FORWARD] = { host_norm_forward, NULL },
    [OP_NORM_BACKWARD] = { host_norm_backward, host_norm_backward_scratch },
    [OP_ROPE_FORWARD] = { host_rope_forward, NULL },
    [OP_ROPE_BACKWARD] = { host_rope_backward, NULL },
    [OP_ATTENTION_FORWARD] = { host_attention_forward, host_attention_forward_scratch },
    [OP_ATTENTION_BACKWARD] = { host_attention_backward, host_attention_backward_scratch },
    [OP_ATTENTION_MERGE] = { host_attention_merge, NULL },
    [OP_ADD] = { host_add, NULL },
    [OP_SWIGLU_FORWARD] = { host_swiglu_forward, NULL },
    [OP_SWIGLU_BACKWARD] = { host_swiglu_backward, NULL },
    [OP_CROSS_ENTROPY] = { host_cross_entropy, host_cross_entropy_scratch },
    [OP_ADAMW] = { host_adamw, NULL },
    [OP_INITIALIZE] = { host_initialize, NULL },
    [OP_FILL] = { host_fill, NULL },
    [OP_COPY] = { host_copy, NULL },
    [OP_SUM] = { host_sum, NULL },
    [OP_TOKENS] = { host_tokens, NULL },
    [OP_STEP_BEGIN] = { host_step_begin, NULL },
    [OP_SQUARE_SUM] = { host_square_sum, NULL },
    [OP_STEP_CLIP] = { host_step_clip, NULL },
    [OP_SCALE] = { host_scale, NULL },
    [OP_FLIP] = { host_flip, NULL },
};

size_t host_scratch_of(const machine_tuning *t, const op *o)
{
    (void)t;
    if (op_is_transfer(o->kind)) return host_transfer_scratch(o);
    return kernels[o->kind].scratch ? kernels[o->kind].scratch(o) : 0;
}

void host_compute(const op *o, void *scratch)
{
    char what[OP_TEXT];
    if (!kernels[o->kind].run) FAIL("%s: the host has no kernel for it", op_describe(o, what, sizeof what));
    kernels[o->kind].run(o, scratch);
}
