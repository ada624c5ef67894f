/* The engines of attention; C and C++ both take this file. attention.c chooses. The launchers are in kernels.h. */
#pragma once
#include "machine/cuda/call.h"

/* Operands, forward the first five. */
enum { Q, K, V, OUT, LSE, D_OUT, DQ, DK, DV };

/* Own kernels on tensor cores: q, k, v, and backward d_out, are BF16. The weights P and their gradients dS are rounded to BF16
 * on the way into a product; all else is FP32. */
XGSW_EXTERN void tiled_attention_forward(const cuda_call *c);
XGSW_EXTERN void tiled_attention_backward(const cuda_call *c);
XGSW_EXTERN size_t tiled_attention_backward_scratch(const cuda_call *c);

/* Own kernels in FP32 throughout, for operands of any format. */
XGSW_EXTERN void plain_attention_forward(const cuda_call *c);
XGSW_EXTERN void plain_attention_backward(const cuda_call *c);
XGSW_EXTERN size_t plain_attention_backward_scratch(const cuda_call *c);

/* cuDNN, as built and as loaded, or that there is none. */
XGSW_EXTERN const char *cuda_attention_library(char *text, size_t length);
/* What computes attention, in words, for the report. */
XGSW_EXTERN const char *cuda_attention_engine(char *text, size_t length);
