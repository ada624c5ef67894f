/* Clocks of the C library. */
#include "base/clock.h"
#include <time.h>

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_seconds(void) { return seconds_of(CLOCK_MONOTONIC); }

double clock_date(void) { return seconds_of(CLOCK_REALTIME); }

const char *clock_text(char text[CLOCK_TEXT])
{
    time_t now = time(NULL);
    struct tm broken_down;
    gmtime_r(&now, &broken_down);
    strftime(text, CLOCK_TEXT, "%Y-%m-%dT%H:%M:%SZ", &broken_down);
    return text;
}

void clock_rest(double seconds)
{
    const struct timespec pause = { 0, (long)(1e9 * seconds) };
    nanosleep(&pause, NULL);
}
