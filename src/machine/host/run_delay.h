/* The time in which this thread could run, but its processor ran other threads, as the system counts it. */
#pragma once

typedef struct {
    int file;        /* -1 if the system has no such count */
    double seen, at; /* seconds counted at the last reading; clock_seconds at the last call */
} run_delay;

run_delay run_delay_open(double now);
void run_delay_close(run_delay *d);
/* Returns the seconds of delay since the last call, or 0 without reading if that was less than a time slice ago. */
double run_delay_at(run_delay *d, double now);
