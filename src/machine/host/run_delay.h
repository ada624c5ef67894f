/* Run delay: the time in which this thread could run, but its processor ran other threads; counted by the kernel. */
#pragma once

typedef struct {
    int file;          /* -1 if the system has no such count */
    double delay_read; /* seconds counted at the last reading */
    double called_at;  /* clock_seconds at the last call */
} run_delay;

run_delay run_delay_open(double now);
void run_delay_close(run_delay *d);
/* Returns the seconds of delay since the last reading; 0, without reading, within 0.5 ms of the last call. */
double run_delay_at(run_delay *d, double now);
