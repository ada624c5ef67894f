/* Preloaded into a run: SLOW_CLOCK="RANK RATE [SECONDS]": the C library's clock of that rank (-1: of all) runs at that
 * rate, and with SECONDS is set right so often, so that it loses nothing in the long run. clock_gettime is answered,
 * and the same asked for by syscall(). */
#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int (*next_clock)(clockid_t, struct timespec *);
static long (*next_call)(long, ...);
static double rate = 1.0, set_right = INFINITY, began;

static double seconds_of(const struct timespec *t) { return (double)t->tv_sec + 1e-9 * (double)t->tv_nsec; }

/* At the first call: constructors of other libraries ask before one of this library would have run. */
static void prepare(void)
{
    if (next_call) return;
    const char *said = getenv("SLOW_CLOCK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    struct timespec now;
    double slower = 1.0;
    int of = -1;
    next_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    next_clock(CLOCK_MONOTONIC, &now);
    began = seconds_of(&now);
    if (said && sscanf(said, "%d %lf %lf", &of, &slower, &set_right) >= 2 && (of < 0 || (rank && of == atoi(rank))))
        rate = slower;
    next_call = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

static int lie(clockid_t which, struct timespec *t)
{
    int code = next_clock(which, t);
    if (which != CLOCK_MONOTONIC || code || rate == 1.0) return code;
    double passed = seconds_of(t) - began, right = isinf(set_right) ? 0.0 : floor(passed / set_right) * set_right;
    double told = began + right + rate * (passed - right);
    t->tv_sec = (time_t)told;
    t->tv_nsec = (long)(1e9 * (told - floor(told)));
    return 0;
}

int clock_gettime(clockid_t which, struct timespec *t)
{
    prepare();
    return lie(which, t);
}

long syscall(long number, ...)
{
    long a[6];
    va_list more;
    prepare();
    va_start(more, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(more, long);
    va_end(more);
    if (number == SYS_clock_gettime) return lie((clockid_t)a[0], (struct timespec *)a[1]);
    return next_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
