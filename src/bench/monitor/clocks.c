/* A barrier is left by nobody before all have come: so no rank's `within` is longer than another's `around`. */
#include "bench/monitor/clocks.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>

const double CLOCK_TOLERANCE = 1e-3, UPTIME_TICK = 0.01;

void clocks_first_barrier(clocks_watch *w)
{
    w->entered = clock_seconds();
    world_barrier();
    w->left = clock_seconds();
}

void clocks_last_barrier(clocks_watch *w)
{
    w->found.within = clock_seconds() - w->left;
    world_barrier();
    w->found.around = clock_seconds() - w->entered;
}

double clocks_begin(clocks_watch *w)
{
    w->first = clock_compared_twice();
    return w->first.clock;
}

/* How far x lies above `high` or, negative, below `low`. */
static double beyond(double x, double low, double high) { return x > high ? x - high : fmin(x - low, 0.0); }

void clocks_step(clocks_watch *w, double end)
{
    clock_moment now = clock_compared();
    double kernel = now.kernel - w->first.kernel, clock = now.clock - w->first.clock;
    double error = beyond(clock - kernel, -w->first.width, now.width) / kernel;
    if (!(fabs(error) <= fabs(w->found.error))) w->found.error = error;
    w->found.kernel_seconds = kernel - (now.clock - end);
    w->found.uncertain = w->first.width + now.width;
}

void clocks_end(clocks_watch *w)
{
    clock_moment now = clock_compared_twice();
    w->found.uptime_seconds = now.uptime - w->first.uptime;
    w->found.uptime_clock = now.clock - w->first.clock;
    w->found.uncertain += w->first.width + now.width;
}

/* What a clock gained, as part of what should have passed, and who says so. */
typedef struct {
    double gained;
    const char *against;
} finding;

static double larger(double a, double b) { return fabs(a) < fabs(b) ? b : a; }

/* The first that is too large; the last, if none is. */
static finding find(const rank_clocks *c, const rank_clocks *first, double seconds)
{
    double slack = UPTIME_TICK + c->uncertain, more = c->within / first->around, less = c->around / first->within;
    double sum = beyond(seconds - c->kernel_seconds, -c->uncertain, c->uncertain) / c->kernel_seconds;
    const finding all[] = {
        { larger(sum, c->error), "the kernel's own" },
        { beyond(c->uptime_clock - c->uptime_seconds, -slack, slack) / (c->uptime_seconds + slack), "/proc/uptime" },
        { fmax(more - 1.0, 0.0) + fmin(less - 1.0, 0.0), "rank 0's" },
    };
    int i = 0;
    while (i < 2 && !(fabs(all[i].gained) > CLOCK_TOLERANCE)) i++;
    return all[i];
}

bool clocks_complaint(const rank_clocks *of, const double *seconds, int ranks, char *text, size_t length)
{
    text[0] = 0;
    for (int r = 0; r < ranks && !text[0]; r++) {
        finding f = find(&of[r], &of[0], seconds[r]);
        if (isnan(of[r].kernel_seconds)) snprintf(text, length, "the kernel tells rank %d no time", r);
        else if (fabs(f.gained) > CLOCK_TOLERANCE)
            snprintf(text, length, "the clock of rank %d %s %.1f %% against %s", r, f.gained < 0.0 ? "lost" : "gained",
                     100.0 * fabs(f.gained), f.against);
    }
    return text[0] != 0;
}
