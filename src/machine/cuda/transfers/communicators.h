/* NCCL communicators: parts of the world, made when a group is connected and kept for who asks again. */
#pragma once
#include "machine/cuda/transfers/first_transfers.h"
#include "machine/op/fabric.h"

/* Gives the group its communicator (group.connection). Collective over the world; disconnected by name as often. */
void cuda_connect(group *g, const char *name, int color, int key);
void cuda_disconnect(const char *name);
/* The group's: of one apart its own, else that of those that take turns. */
const cuda_communicator *communicator_for(const group *g);

/* Registers memory with the group's communicator, unless it has a window; returns whether it has one then. Collective
 * over the group. */
bool communicator_map(const group *g, void *memory, size_t bytes);
/* Takes all windows away. Collective over their groups. */
void communicators_unmap(void);
/* Returns how many have a window. */
int communicators_mapped(void);
/* Of the device's memory that all of them hold, as measured when they were made. */
double communicators_bytes(void);
/* Ends the run if a communicator met an error of its own; called while one waits. */
void communicators_check(void);
/* Before the run ends on a failure: lets go of the peers, within a bound. */
void communicators_abort(void);
