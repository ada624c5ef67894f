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
 * (NCCL issues 864, 964 and 986); these have a quarter to half of the thread blocks. Communicators that take turns
 * count once. The report's Memory line has the measured value. */
double memory_outside_estimate(const mesh *m);
/* Resets the process's peak of resident memory. Call it when a case begins. */
void memory_reset_peak(void);
/* Peak resident bytes of this process since memory_reset_peak, without arena_bytes. unshared: also without MPI's shared
 * buffers, which count on every rank that touches them. */
typedef struct {
    double bytes, unshared;
} outside_memory;
outside_memory memory_outside(size_t arena_bytes);
/* Returns the bytes in use on a device, without the arena. device: its state while the arena existed. */
double memory_outside_on_device(const machine_device *device, size_t arena_bytes);
