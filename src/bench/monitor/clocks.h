/* Whether a second of the steps is a second. All times are of the C library's clock, which a preloaded library may
 * slow; beside it stand the kernel's own clock, /proc/uptime (base/clock.h) and the clocks of the other ranks. */
#pragma once
#include "base/clock.h"
#include <stdbool.h>
#include <stddef.h>

/* Clocks may differ by so much of the time that passed: the kernel steers its clocks by 500 millionths at most (Linux,
 * adjtimex: the frequency's largest offset), and two of them by as much in both directions. What reading takes, and the
 * hundredth of a second that /proc/uptime counts in, come to it. */
extern const double CLOCK_TOLERANCE, UPTIME_TICK;

/* Of a rank. kernel_seconds: of all its steps; uncertain: of these, while clocks were read. error: the largest part of
 * the time passed by the end of a step that the clock had gained (above 0) or lost (below), beyond what reading
 * explains. uptime_seconds: by /proc/uptime (NaN: not told), from before the first step until after the last;
 * uptime_clock: as long by the clock. within, around: by the clock, from when the rank had left the barrier before the
 * steps until it came to the one behind them; from when it came to the first until it had left the second. */
typedef struct {
    double kernel_seconds, uncertain, error, uptime_seconds, uptime_clock, within, around;
} rank_clocks;

/* Of this rank, while the steps run. */
typedef struct {
    clock_moment first;
    double entered, left; /* the barrier before the steps */
    rank_clocks found;
} clocks_watch;

/* Collective over the world: the barriers. */
void clocks_first_barrier(clocks_watch *w);
void clocks_last_barrier(clocks_watch *w);
/* The steps begin: returns the clock's time. A step is complete, which by the clock it was at `end`. After the last. */
double clocks_begin(clocks_watch *w);
void clocks_step(clocks_watch *w, double end);
void clocks_end(clocks_watch *w);

/* Of the ranks' clocks, the steps of rank r having taken seconds[r] by its own: what the first that is wrong has lost
 * or gained, in words, and against which other clock. False: all agree. */
bool clocks_complaint(const rank_clocks *of, const double *seconds, int ranks, char *text, size_t length);
