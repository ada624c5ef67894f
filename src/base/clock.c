/* The C library's CLOCK_MONOTONIC. */
#include "base/clock.h"
#include <time.h>

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void clock_rest(double seconds)
{
    const struct timespec pause = { 0, (long)(1e9 * seconds) };
    nanosleep(&pause, NULL);
}
