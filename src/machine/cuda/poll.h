/* Looking at what the queues have completed. */
#pragma once
#include "machine/cuda/queue.h"

/* Looks at all queues until this one has completed `serial`; ends the run if nothing moves for too long. */
void poll_until(cuda_executor *e, int queue, uint64_t serial);
