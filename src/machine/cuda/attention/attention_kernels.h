/* Own kernels of attention; C and C++ both take this file. attention.c chooses. */
#pragma once
#include "machine/cuda/device/call.h"

/* Operands, forward the first five. */
enum { Q, K, V, OUT, LSE, D_OUT, DQ, DK, DV };

/* On tensor cores: q, k, v and d_out are BF16; weights P and their gradients dS are rounded to it; all else is FP32. */
XGSW_EXTERN void tiled_attention_forward(const cuda_call *c);
XGSW_EXTERN void tiled_attention_backward(const cuda_call *c);
XGSW_EXTERN size_t tiled_attention_backward_scratch(const cuda_call *c);

/* In FP32 throughout, operands of any format. */
XGSW_EXTERN void plain_attention_forward(const cuda_call *c);
XGSW_EXTERN void plain_attention_backward(const cuda_call *c);
XGSW_EXTERN size_t plain_attention_backward_scratch(const cuda_call *c);
