/* Reads the second number of schedstat on Linux, in nanoseconds (Documentation/scheduler/sched-stats.rst). */
#include "machine/host/run_delay.h"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* Shorter than the shortest time slice of a scheduler (Linux: base_slice_ns, at least 0.7 ms). */
static const double UNREAD_SECONDS = 5e-4;

static double read_delay(const run_delay *d)
{
    char text[96];
    unsigned long long ran, waited;
    ssize_t length = d->file < 0 ? -1 : pread(d->file, text, sizeof text - 1, 0);
    if (length <= 0) return 0.0;
    text[length] = 0;
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? 1e-9 * (double)waited : 0.0;
}

run_delay run_delay_open(double now)
{
    run_delay d = { .file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC), .called_at = now };
    d.delay_read = read_delay(&d);
    return d;
}

void run_delay_close(run_delay *d)
{
    if (d->file >= 0) close(d->file);
}

double run_delay_at(run_delay *d, double now)
{
    double before = d->delay_read;
    if (now - d->called_at > UNREAD_SECONDS) d->delay_read = read_delay(d);
    d->called_at = now;
    return d->delay_read - before;
}
