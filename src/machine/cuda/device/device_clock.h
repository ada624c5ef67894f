/* The times of CUDA events, converted to clock_seconds. The device's clock is corrected by the host's. */
#pragma once
#include <cuda_runtime.h>

typedef struct device_clock device_clock;
device_clock *device_clock_open(void);
void device_clock_close(device_clock *c);
/* Returns the time of a complete event. The host knows that it is between `after` and `before` (seconds). */
double device_clock_time(device_clock *c, cudaEvent_t event, double after, double before);
/* Makes *event, which was reached at `time`, the base if the current base is too old, and sets *event to the old base.
 * The clock then owns the new base. All later queries must be about later events. */
void device_clock_advance(device_clock *c, cudaEvent_t *event, double time);
