/* A thread block that stays on a multiprocessor. */
#pragma once
#include "machine/cuda/device/call.h"

/* Starts the block, or ends it and waits for its end. Do not load kernels or allocate memory while it runs: that would
 * wait for the whole device, and so forever. */
XGSW_EXTERN void cuda_occupy(bool start);
