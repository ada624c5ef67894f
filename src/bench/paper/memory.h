/* Available memory, and memory that libraries use outside the arena of a case. */
#pragma once
#include "bench/launch/placement.h"
#include "train/measure.h"

/* Returns whether the memory of every node, or device, suffices for all its ranks. If not, writes a sentence with the
 * numbers. If the mesh is on paper, the memory of its communicators is estimated. r: measure of this rank; not used if
 * it takes no part. All ranks return the same. Collective over the world. */
bool memory_suffices(const mesh *m, const measure *r, machine_kind kind, const host_load *load,
                     char skipped[REASON_LENGTH]);
/* Returns an estimate of device memory outside the arena: 1.5 GB for kernels, cuBLASLt, cuDNN and their workspaces, and
 * 0.3 GB for each communicator that does not exist yet. Users report 0.5 to 1.6 GB for communicators of all channels
 * (NCCL issues 864, 964 and 986), which have two to four times the blocks of these. Communicators that take turns share
 * the resources of one. The report's Memory line has the measured value. */
double memory_room_outside(const mesh *m);
/* Resets the process's peak of resident memory. Call it when a case begins. */
void memory_forget_peak(void);
/* Peak resident bytes of this process since then, without arena_bytes. own: also without memory that is shared with
 * other ranks now (MPI's buffers, which every rank counts that touches them). */
typedef struct {
    double bytes, own;
} outside_memory;
outside_memory memory_outside(size_t arena_bytes);
/* Returns the bytes in use on a device, without the arena. looked_at: state of the device while the arena existed. */
double memory_outside_on_device(const machine_device *looked_at, size_t arena_bytes);
