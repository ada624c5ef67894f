/* Attention: which engine computes a call. */
#include "machine/cuda/attention.h"
#include "machine/cuda/kernels.h"
#include <stdio.h>

static bool is_bf16(const cuda_call *c, int operand) { return c->x[operand].type == BF16; }

/* Tensor cores take BF16 only. */
static bool forward_is_tiled(const cuda_call *c) { return is_bf16(c, Q) && is_bf16(c, K) && is_bf16(c, V); }
static bool backward_is_tiled(const cuda_call *c) { return forward_is_tiled(c) && is_bf16(c, D_OUT); }

size_t cuda_attention_forward_scratch(const cuda_call *c)
{
    (void)c;
    return 0;
}

void cuda_attention_forward(const cuda_call *c)
{
    if (forward_is_tiled(c)) tiled_attention_forward(c);
    else plain_attention_forward(c);
}

size_t cuda_attention_backward_scratch(const cuda_call *c)
{
    return backward_is_tiled(c) ? tiled_attention_backward_scratch(c) : plain_attention_backward_scratch(c);
}

void cuda_attention_backward(const cuda_call *c)
{
    if (backward_is_tiled(c)) tiled_attention_backward(c);
    else plain_attention_backward(c);
}

const char *cuda_attention_library(char *text, size_t length)
{
    snprintf(text, length, "no cuDNN");
    return text;
}

const char *cuda_attention_engine(char *text, size_t length)
{
    snprintf(text, length, "own kernels (mma.sync; FP32 without tensor cores)");
    return text;
}
