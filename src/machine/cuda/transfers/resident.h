/* A block that stays on a multiprocessor. */
#pragma once
#include "machine/cuda/device/call.h"

/* Starts it, or ends it and waits until it has left. Between the two nothing may be loaded or allocated, because that
 * waits for the whole device. */
XGSW_EXTERN void cuda_occupy(bool start);
