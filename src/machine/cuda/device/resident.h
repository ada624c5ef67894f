/* A block that stays on a multiprocessor. */
#pragma once
#include "machine/cuda/device/call.h"

/* Starts it, or ends it and waits for its end. Nothing may be loaded or allocated between: that waits for the device. */
XGSW_EXTERN void cuda_occupy(bool start);
