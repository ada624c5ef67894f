/* xgsw's own attention kernels, for C and C++. attention.c chooses between them. */
#pragma once
#include "machine/cuda/device/call.h"

/* Operands of attention. Forward has the first five. */
enum { Q, K, V, OUT, LSE, D_OUT, DQ, DK, DV };

/* Use tensor cores: q, k, v and d_out must be BF16. Weights P and gradients dS are rounded to BF16. Sums are FP32. */
XGSW_EXTERN void tiled_attention_forward(const cuda_call *c);
XGSW_EXTERN void tiled_attention_backward(const cuda_call *c);
XGSW_EXTERN size_t tiled_attention_backward_scratch(const cuda_call *c);

/* Compute in FP32. Operands may have any format. */
XGSW_EXTERN void plain_attention_forward(const cuda_call *c);
XGSW_EXTERN void plain_attention_backward(const cuda_call *c);
XGSW_EXTERN size_t plain_attention_backward_scratch(const cuda_call *c);
