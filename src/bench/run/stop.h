/* Reasons to stop a run early: a signal to any rank, the deck's time_limit, the launcher's time limit. */
#pragma once
#include "plan/bench_case.h"

/* Times in seconds on this rank's clock. */
typedef struct {
    double began, job_ends; /* job_ends: end of the job minus the time to close the run; infinity if no limit */
} stop_clock;

/* Reason: a soak is long enough. Other reasons are larger numbers, so they win in the maximum over ranks. */
enum { STOP_SOAKED = 1 };

/* Returns the clock of a run that begins now. */
stop_clock stop_open(void);
/* Returns this rank's reason to stop the case if it continues for `seconds`, or 0. */
int stop_reason(const stop_clock *s, const bench_case *c, double seconds);
/* Returns the largest reason of all ranks to stop now, or 0. Collective over the world. */
int stop_agreed(const stop_clock *s, const bench_case *c);
/* Returns a reason as text: "SIGTERM", "time_limit"; empty for 0. */
const char *stop_words(int reason);
