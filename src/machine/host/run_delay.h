/* How long this thread could run while its processor ran others, as the system counts it. */
#pragma once

typedef struct {
    int file;        /* -1: the system does not tell */
    double seen, at; /* seconds counted at the last look; clock_seconds at the last call */
} run_delay;

run_delay run_delay_open(double now);
void run_delay_close(run_delay *d);
/* Seconds of delay since the last call; 0, without a look, if no scheduler switches twice in so short a time. */
double run_delay_at(run_delay *d, double now);
