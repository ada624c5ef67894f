/* Both clocks are CLOCK_MONOTONIC, so they agree but for the time that reading takes. */
#include "base/clock.h"
#include "base/kernel_call.h"
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>

/* A reading may be interrupted: the first of no more than SHORT seconds counts, or the shortest. */
enum { ATTEMPTS = 3, LINE = 64 };
static const double SHORT = 1e-5;

static double seconds_of(struct timespec t) { return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec; }

double clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return seconds_of(now);
}

static double kernel_seconds(void)
{
    struct timespec now = { 0, 0 };
    return kernel_call(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now, 0) < 0 ? NAN : seconds_of(now);
}

static double uptime_seconds(void)
{
    char line[LINE] = "";
    long file = kernel_call(SYS_openat, AT_FDCWD, (long)"/proc/uptime", O_RDONLY);
    long got = file < 0 ? -1 : kernel_call(SYS_read, file, (long)line, LINE - 1);
    if (file >= 0) kernel_call(SYS_close, file, 0, 0);
    return got > 0 ? strtod(line, NULL) : NAN;
}

static clock_moment compared(bool twice)
{
    clock_moment best = { .width = INFINITY };
    for (int i = 0; i < ATTEMPTS && !(best.width <= SHORT); i++) {
        clock_moment m = { .kernel = kernel_seconds() };
        m.clock = clock_seconds();
        m.uptime = twice ? uptime_seconds() : NAN;
        m.width = kernel_seconds() - m.kernel;
        if (!(m.width >= best.width)) best = m;
    }
    return best;
}

clock_moment clock_compared(void) { return compared(false); }
clock_moment clock_compared_twice(void) { return compared(true); }
