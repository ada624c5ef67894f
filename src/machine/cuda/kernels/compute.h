/* The CUDA machine's kernels. Launchers queue work on the call's stream and return. */
#pragma once
#include "machine/cuda/device/call.h"
#include "machine/op/op.h"

/* Returns the bytes of scratch that the operation needs. They depend on shapes only: a dry run needs no GPU. */
size_t cuda_scratch_bytes(const op *o);
void cuda_compute(const op *o, void *scratch, size_t bytes, cudaStream_t stream);
cuda_call cuda_call_of(const op *o, void *scratch, size_t bytes, cudaStream_t stream);
