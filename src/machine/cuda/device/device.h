/* device/: this rank's GPU, its memory, clock and libraries. */
#pragma once
#include "machine/queue/kind.h"
#include "machine/sample/sampler.h"

/* Returns whether this process can run on its GPU, and creates a context there. If not, writes the reason: a clause. */
bool cuda_device_usable(char *why, size_t length);
/* Writes the compute capabilities that this build has code for: "9.0, 10.0, PTX of 8.0". Returns text. */
const char *cuda_code_text(char *text, size_t length);
/* Chooses this rank's GPU at the first call: its rank on the node, modulo the number of visible GPUs. */
void cuda_device_use(void);
/* Returns the number of multiprocessors of this rank's GPU. */
int cuda_multiprocessors(void);
/* Returns the GPU's properties, clock, power and free memory. Takes milliseconds: do not call it in a step. */
machine_device cuda_device_read(void);
/* Reads the GPU's state from NVML. Any thread may call it once the GPU has been chosen. */
void cuda_device_state(device_state *now);
