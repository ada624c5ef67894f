/* Monotonic seconds, the date, and pauses of some seconds. */
#pragma once
double clock_seconds(void);
double clock_date(void);         /* seconds since 1970 */
void clock_rest(double seconds); /* less than one */
