/* How long this thread could run while its processor ran others, as the system counts it: what a crowded processor
 * takes from a rank. A thread that is stopped cannot run: that is no delay. Other threads of the rank are not seen. */
#pragma once

typedef struct {
    int file;        /* -1: the system does not tell */
    double seen, at; /* seconds counted at the last look; clock_seconds at the last call */
} run_delay;

run_delay run_delay_open(double now);
void run_delay_close(run_delay *d);
/* Seconds of delay since the last call; 0 if that is so little time ago that no scheduler gave the processor away and
 * back. So a look costs less than a part in 500 of what it looks at. */
double run_delay_at(run_delay *d, double now);
