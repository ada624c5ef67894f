/* Launchers, one per kind of operation; C and C++ both take this file. */
#pragma once
#include "machine/cuda/call.h"

XGSW_EXTERN void cuda_matmul(const cuda_call *c);
XGSW_EXTERN size_t cuda_matmul_scratch(const cuda_call *c);
XGSW_EXTERN void cuda_embedding_forward(const cuda_call *c);
XGSW_EXTERN void cuda_embedding_backward(const cuda_call *c);
XGSW_EXTERN size_t cuda_embedding_backward_scratch(const cuda_call *c);
XGSW_EXTERN void cuda_norm_forward(const cuda_call *c);
XGSW_EXTERN void cuda_norm_backward(const cuda_call *c);
XGSW_EXTERN size_t cuda_norm_backward_scratch(const cuda_call *c);
XGSW_EXTERN void cuda_rope_forward(const cuda_call *c);
XGSW_EXTERN void cuda_rope_backward(const cuda_call *c);
XGSW_EXTERN void cuda_attention_forward(const cuda_call *c);
XGSW_EXTERN size_t cuda_attention_forward_scratch(const cuda_call *c);
XGSW_EXTERN void cuda_attention_backward(const cuda_call *c);
XGSW_EXTERN size_t cuda_attention_backward_scratch(const cuda_call *c);
XGSW_EXTERN void cuda_attention_merge(const cuda_call *c);
XGSW_EXTERN void cuda_swiglu_forward(const cuda_call *c);
XGSW_EXTERN void cuda_swiglu_backward(const cuda_call *c);
XGSW_EXTERN void cuda_cross_entropy(const cuda_call *c);
XGSW_EXTERN size_t cuda_cross_entropy_scratch(const cuda_call *c);
XGSW_EXTERN void cuda_adamw(const cuda_call *c);
XGSW_EXTERN void cuda_initialize(const cuda_call *c);
XGSW_EXTERN void cuda_fill(const cuda_call *c);
XGSW_EXTERN void cuda_copy(const cuda_call *c);
XGSW_EXTERN void cuda_add(const cuda_call *c);
XGSW_EXTERN void cuda_sum(const cuda_call *c);
XGSW_EXTERN void cuda_tokens(const cuda_call *c);
XGSW_EXTERN void cuda_step_begin(const cuda_call *c);
XGSW_EXTERN void cuda_square_sum(const cuda_call *c);
XGSW_EXTERN size_t cuda_square_sum_scratch(const cuda_call *c);
XGSW_EXTERN void cuda_step_clip(const cuda_call *c);
XGSW_EXTERN void cuda_scale(const cuda_call *c);
XGSW_EXTERN void cuda_flip(const cuda_call *c);
