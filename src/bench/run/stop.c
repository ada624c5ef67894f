/* Reasons are numbers of signals, and larger numbers for time limits. */
#include "bench/run/stop.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "machine/world.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* MARGIN_SECONDS: time for closing the case and writing the record, but at most a tenth of the remaining time. */
enum { REASON_TIME_LIMIT = 1000, REASON_LAUNCHER = 1001, MARGIN_SECONDS = 60 };

/* Returns the number in a variable, or infinity. */
static double number_in(const char *variable)
{
    const char *text = getenv(variable);
    char *end = NULL;
    double value = text ? strtod(text, &end) : 0.0;
    return text && end != text && !*end && value > 0.0 ? value : INFINITY;
}

/* Slurm gives the end of the job. Torque gives only its length, so time used before this run is ignored. */
static double seconds_of_job(void)
{
    return fmin(number_in("SLURM_JOB_END_TIME") - (double)time(NULL), number_in("PBS_WALLTIME"));
}

stop_clock stop_open(void)
{
    double now = clock_seconds(), left = seconds_of_job();
    return (stop_clock){ now, isinf(left) ? left : now + left - fmin(MARGIN_SECONDS, fmax(0.0, left / 10.0)) };
}

int stop_reason(const stop_clock *s, const bench_case *c, double seconds)
{
    double then = clock_seconds() + seconds;
    if (interrupt_signal()) return interrupt_signal();
    if (c->time_limit > 0.0 && then - s->began > c->time_limit) return REASON_TIME_LIMIT;
    return then > s->job_ends ? REASON_LAUNCHER : 0;
}

int stop_agreed(const stop_clock *s, const bench_case *c)
{
    double reason = stop_reason(s, c, 0.0);
    world_maximum(&reason, 1);
    return (int)reason;
}

const char *stop_words(int reason)
{
    switch (reason) {
    case 0: return "";
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGUSR1: return "SIGUSR1";
    case REASON_TIME_LIMIT: return "time_limit";
    default: return "the end of the job";
    }
}
