/* Before the first step, every operation that it will submit runs once, one for each kind, formats and shapes, on
 * whatever lies in the arena. CUDA loads a kernel at its first launch, and loading waits for the device; by then a
 * receive that was posted ahead might be running there, waiting for what this very launch has to compute. */
#pragma once
#include "machine/op.h"

/* A measuring machine is opened; it met the operation (transfers are not rehearsed). Needs no device. */
void rehearsal_open(void);
void rehearsal_note(const op *o);
/* memory: that of the arena which was measured, scratch at its end; left with garbage. Synchronizes. */
void rehearsal_run(void *memory, size_t bytes);
