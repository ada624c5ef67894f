/* The time of events in clock_seconds. The device has a clock of its own, which is held to the host's. */
#pragma once
#include <cuda_runtime.h>

typedef struct device_clock device_clock;
device_clock *device_clock_open(void);
void device_clock_close(device_clock *c);
/* When the event, which is complete, was reached. The host knows that it was between `after` and `before`. */
double device_clock_time(device_clock *c, cudaEvent_t event, double after, double before);
/* Tells it of an event that was reached at `time`, after which all events still asked for come. The clock may count
 * from it; the caller gets another event in its place. */
void device_clock_advance(device_clock *c, cudaEvent_t *event, double time);
