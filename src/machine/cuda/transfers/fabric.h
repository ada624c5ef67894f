/* Transfers among GPUs by NCCL. */
#pragma once
#include "machine/op.h"
#include <cuda_runtime.h>

/* Bytes of scratch a transfer needs, from shapes only. */
size_t cuda_transfer_scratch(const op *o);
/* Does it convert between two formats? Then a copy between the same formats, on its operands: it loads the same kernels
 * but where the part's length is no multiple of a pack and the whole's is. */
bool cuda_transfer_conversion(const op *o, op *copy);
/* Queues the transfer; the caller has checked that the scratch is as large as needed. queue_index is the number of the
 * machine's queue: transfers that run at once are on different ones. */
void cuda_transfer(const op *o, void *scratch, cudaStream_t stream, int queue_index);
