/* The time of CUDA events. CUDA returns the milliseconds between two events as a float. Its resolution is half a
 * microsecond after 4 s, but hundreds of microseconds after hours. Therefore the base event is replaced after 4 s. */
#include "machine/cuda/device/device_clock.h"
#include "base/clock.h"
#include "base/memory.h"
#include "machine/cuda/device/call.h"

static const double ADVANCE_SECONDS = 4.0;

struct device_clock {
    cudaEvent_t base;
    double base_time;
};

device_clock *device_clock_open(void)
{
    cudaStream_t stream;
    device_clock *c = allocate(1, sizeof *c, "the device's clock");
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaEventCreate(&c->base));
    CUDA_CHECK(cudaEventRecord(c->base, stream));
    CUDA_CHECK(cudaEventSynchronize(c->base));
    c->base_time = clock_seconds();
    CUDA_CHECK(cudaStreamDestroy(stream));
    return c;
}

void device_clock_close(device_clock *c)
{
    CUDA_CHECK(cudaEventDestroy(c->base));
    free(c);
}

/* Moves the base time if the event's time is outside [after, before]: the device's clock runs some ppm fast or slow. */
double device_clock_time(device_clock *c, cudaEvent_t event, double after, double before)
{
    float milliseconds = 0.0f;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, c->base, event));
    double time = c->base_time + 1e-3 * (double)milliseconds, corrected = time < after    ? after
                                                                          : time > before ? before
                                                                                          : time;
    c->base_time += corrected - time;
    return corrected;
}

void device_clock_advance(device_clock *c, cudaEvent_t *event, double time)
{
    cudaEvent_t old_base = c->base;
    if (time - c->base_time < ADVANCE_SECONDS) return;
    c->base = *event;
    c->base_time = time;
    *event = old_base;
}
