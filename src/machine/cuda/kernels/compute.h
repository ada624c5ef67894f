/* The CUDA machine's kernels. Launchers queue work on the call's stream and return; they touch no data. Scratch follows
 * from shapes only, so that a dry run needs no GPU. */
#pragma once
#include "machine/cuda/device/call.h"
#include "machine/op/op.h"

/* Bytes of scratch the op needs; queues it. */
size_t cuda_scratch_bytes(const op *o);
void cuda_compute(const op *o, void *scratch, size_t bytes, cudaStream_t stream);
cuda_call cuda_call_of(const op *o, void *scratch, size_t bytes, cudaStream_t stream);
