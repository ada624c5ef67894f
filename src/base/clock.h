/* Monotonic seconds. */
#pragma once
double clock_seconds(void);
