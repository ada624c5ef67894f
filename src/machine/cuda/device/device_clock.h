/* The times of CUDA events, converted to clock_seconds. The device's clock is corrected by the host's. */
#pragma once
#include <cuda_runtime.h>

typedef struct device_clock device_clock;
device_clock *device_clock_open(void);
void device_clock_close(device_clock *c);
/* Returns when a complete event was reached. The host knows that this was between `after` and `before` (seconds). */
double device_clock_time(device_clock *c, cudaEvent_t event, double after, double before);
/* Makes an event that was reached at `time` the new base, if the old one is too old. All later queries must be about
 * later events. The clock then owns that event, and *event becomes the old base. */
void device_clock_advance(device_clock *c, cudaEvent_t *event, double time);
