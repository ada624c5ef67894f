/* Does a case fit, and what do the libraries take beside its arena? */
#pragma once
#include "bench/launch/placement.h"
#include "train/measure.h"

/* If all ranks of a node, or of a device, together want more than is available there, says so with the figures. A mesh
 * on paper has its communicators yet to make, and they are estimated. r: this rank's measure, if it takes part in it.
 * Collective over the world; the same answer on all ranks. */
bool memory_suffices(const mesh *m, const measure *r, machine_kind kind, const host_load *load,
                     char skipped[REASON_LENGTH]);
/* What is taken on a device outside the arena once its context is made: 1.5 GB for kernels, cuBLASLt, cuDNN and their
 * workspaces, and 0.3 GB for each communicator that is yet to be made. Communicators of all channels, of which users
 * report 0.5 to 1.6 GB (NCCL's issues 864, 964 and 986), have two to four times the blocks of these. Those that take
 * turns share one's resources. The report's Memory line tells what it was. */
double memory_room_outside(const mesh *m);
/* A case begins: the peak counts from here. */
void memory_forget_peak(void);
/* Peak resident bytes of a process since then beyond arena_bytes, and what is left of them without the memory that it
 * shares at the end with other ranks (MPI's buffers, counted by every rank that touches them). */
typedef struct {
    double bytes, own;
} outside_memory;
outside_memory memory_outside(size_t arena_bytes);
/* In use on a device that was looked at while the arena lay there, without the arena. */
double memory_outside_on_device(const machine_device *looked_at, size_t arena_bytes);
