/* Transfers among GPUs by NCCL. */
#pragma once
#include "machine/op.h"
#include <cuda_runtime.h>

/* Queues the transfer. queue_index is the number of the machine's queue: transfers that run at once are on different
 * ones. */
void cuda_transfer(const op *o, cudaStream_t stream, int queue_index);
