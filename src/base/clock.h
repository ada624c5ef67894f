/* Monotonic seconds; and whether they are seconds. */
#pragma once
double clock_seconds(void);

/* One moment by the clock above and by two that a preloaded library does not reach: the kernel's own answer
 * (base/kernel_call.h), and /proc/uptime, in hundredths of a second. The clock was read between `kernel` and `kernel` +
 * `width`, and so was uptime. NaN: not told, or not asked. */
typedef struct {
    double clock, kernel, uptime, width;
} clock_moment;
clock_moment clock_compared(void);
/* And by /proc/uptime, whose reading takes longer the more processors there are. */
clock_moment clock_compared_twice(void);
