/* Transfers among GPUs by NCCL: the CUDA machine's communicators and what runs on them. */
#pragma once
#include "machine/machine.h"
#include <cuda_runtime.h>

/* group->communicator, one a lane. Collective over the world, as group_connect; disconnected by name as often. */
void cuda_connect(struct group *g, const char *name, int color, int key);
void cuda_disconnect(const char *name);

/* Bytes of scratch a transfer needs, from shapes only. */
size_t cuda_transfer_scratch(const op *o);
/* Does it convert between two formats? Then a copy between the same formats, on its operands: it loads the same kernels
 * but where the part's length is no multiple of a pack and the whole's is. */
bool cuda_transfer_conversion(const op *o, op *copy);
/* Queues the transfer; the caller has checked that the scratch is as large as needed. queue_index is the number of the
 * machine's queue: transfers that run at once are on different ones. */
void cuda_transfer(const op *o, void *scratch, cudaStream_t stream, int queue_index);

/* Ends the run if a communicator met an error of its own; called while one waits. */
void cuda_fabric_poll(void);
/* Before the run ends on a failure: lets go of the peers, within a bound. */
void cuda_fabric_abort(void);
