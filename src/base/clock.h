/* Monotonic seconds, the date, and short pauses. */
#pragma once
double clock_seconds(void);
double clock_date(void);         /* seconds since 1970 */
void clock_rest(double seconds); /* less than one second */
