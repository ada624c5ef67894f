/* A thread block that stays on a multiprocessor. */
#pragma once
#include "machine/cuda/device/call.h"

/* Starts the block, or ends it and waits for its end. Do not load kernels or allocate memory in between, because these
 * wait for the whole device. */
XGSW_EXTERN void cuda_occupy(bool start);
