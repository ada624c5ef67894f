/* transfers/: transfers among GPUs by NCCL. */
#pragma once
#include "machine/op/op.h"
#include <cuda_runtime.h>

/* Queues the transfer on the stream. Collective over its group. */
void cuda_transfer(const op *o, cudaStream_t stream);
