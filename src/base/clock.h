/* Monotonic seconds, the date, and short pauses. */
#pragma once
double clock_seconds(void);
double clock_date(void); /* seconds since 1970 */
/* Writes date and time in UTC: "2026-01-31T23:59:59Z". Returns text. */
enum { CLOCK_TEXT = 24 };
const char *clock_text(char text[CLOCK_TEXT]);
void clock_rest(double seconds); /* less than one second */
