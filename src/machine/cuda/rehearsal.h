/* Before the first step, every operation that it will submit runs once, one for each kind, formats and shapes, on
 * whatever lies in the arena. CUDA loads a kernel at its first launch, and loading waits for the device; by then a
 * receive that was posted ahead might be running there, waiting for what this very launch has to compute. */
#pragma once
#include "machine/preparation.h"

/* memory: that of the arena which the notes are of, scratch at its end; left with garbage. Transfers are not rehearsed.
 * Synchronizes. */
void rehearse(const preparation *p, void *memory, size_t bytes);
