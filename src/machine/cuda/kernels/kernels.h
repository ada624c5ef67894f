/* kernels/: kernels and their launchers, cuda_NAME for each kind of operation. C and C++ both include this file. */
#pragma once
#include "base/op_kinds.h"
#include "machine/cuda/device/call.h"

#define CUDA_KERNEL(constant, name) XGSW_EXTERN void cuda_##name(const cuda_call *c);
OPS_COMPUTED(CUDA_KERNEL)

/* Bytes of scratch of the kernels that need it, from shapes alone. */
XGSW_EXTERN size_t cuda_matmul_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_embedding_backward_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_norm_backward_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_attention_forward_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_attention_backward_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_gelu_backward_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_column_sums_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_cross_entropy_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_square_sum_scratch(const cuda_call *c);
XGSW_EXTERN size_t cuda_signed_sums_scratch(const cuda_call *c);
