/* Why a run stops before its end: a signal that one rank got, the deck's time_limit, the launcher's. */
#pragma once
#include "plan/bench_case.h"

/* By this rank's clock, in seconds. */
typedef struct {
    double began, job_ends; /* job_ends: when the launcher's limit leaves time enough to close; infinity: no limit */
} stop_clock;

/* A reason among all ranks': a soak is over. Others are larger. */
enum { STOP_SOAKED = 1 };

/* Of a run that begins now. */
stop_clock stop_open(void);
/* This rank's reason to stop the case if what is asked for takes so many seconds more; 0: none. */
int stop_reason(const stop_clock *s, const bench_case *c, double seconds);
/* Any rank's, now. Collective over the world. */
int stop_agreed(const stop_clock *s, const bench_case *c);
/* "SIGTERM", "time_limit"; of 0 nothing. */
const char *stop_words(int reason);
