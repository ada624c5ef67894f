/* NCCL communicators. Each is a split of the world, made when a group first connects and kept for reuse. */
#pragma once
#include "machine/cuda/transfers/first_transfers.h"
#include "machine/op/fabric.h"

/* Gives the group its communicator (group.connection). Collective over the world. Pair it with cuda_disconnect. */
void cuda_connect(group *g, const char *name, int color, int key);
void cuda_disconnect(const char *name);
/* Returns the connected group's communicator. Ends the run if the group is not connected. */
const cuda_communicator *communicator_for(const group *g);

/* Registers memory with the group's communicator if it has no window yet. Returns whether it has one now. Collective
 * over the group. */
bool communicator_map(const group *g, void *memory, size_t bytes);
/* Deregisters all windows. Collective over their groups. */
void communicators_unmap(void);
/* Returns how many communicators have a window. */
int communicators_mapped(void);
/* Returns the measured bytes of device memory that all communicators hold. */
double communicators_bytes(void);
/* Ends the run if a communicator reports an asynchronous error. Call it while waiting for a transfer. */
void communicators_check(void);
/* Aborts all communicators of a failed run, so that peers do not hang. Takes at most 5 s. */
void communicators_abort(void);
