/* device/: this rank's GPU, its memory, clock and libraries: which it is, whether it will do, its state. */
#pragma once
#include "machine/queue/kind.h"
#include "machine/sample/sampler.h"

/* Can this process run on a GPU of its own? If not, why: a clause. Makes its context there. */
bool cuda_device_usable(char *why, size_t length);
/* Writes the compute capabilities that this build has code for: "9.0, 10.0, PTX of 8.0". Returns text. */
const char *cuda_code_words(char *text, size_t length);
/* Chooses it at first use: the rank's place on its node, among the GPUs that the process sees. */
void cuda_device_use(void);
/* Its multiprocessors. */
int cuda_multiprocessors(void);
/* Reads its properties, clock, power and free memory. That takes milliseconds: never call it in a step. */
machine_device cuda_device_read(void);
/* What NVML tells of it now; any thread may ask, once it has been chosen. */
void cuda_device_state(device_state *now);
