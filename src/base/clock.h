/* Monotonic seconds, and pauses of some. */
#pragma once
double clock_seconds(void);
void clock_rest(double seconds); /* less than one */
