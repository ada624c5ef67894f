/* When a clock is wrong: verdicts on invented clocks, and the real ones of this machine. */
#include "bench/monitor/clocks.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3 };
static const double STEPS = 10.0;

/* Ten seconds of steps, in order; then what the test changes of rank 1. */
static void expect(double change, size_t of, const char *complaint)
{
    rank_clocks c[RANKS];
    double seconds[RANKS] = { STEPS, STEPS, STEPS };
    char text[160];
    for (int r = 0; r < RANKS; r++)
        c[r] = (rank_clocks){ .kernel_seconds = STEPS, .uncertain = 1e-5, .uptime_seconds = STEPS, .within = STEPS };
    for (int r = 0; r < RANKS; r++) c[r].uptime_clock = STEPS, c[r].around = STEPS + 0.1;
    double *changed = (double *)((char *)&c[1] + of);
    *changed = of == offsetof(rank_clocks, error) ? change : *changed * (1.0 + change);
    assert_int_equal(clocks_complaint(c, seconds, RANKS, text, sizeof text), complaint[0] != 0);
    assert_string_equal(text, complaint);
}

static void limits_hold(void **state)
{
    expect(0.0, 0, "");
    expect(0.0009, offsetof(rank_clocks, kernel_seconds), "");
    expect(-0.0009, offsetof(rank_clocks, error), "");
    expect(0.0019, offsetof(rank_clocks, uptime_seconds), ""); /* a hundredth of a second of ten is as much again */
    expect(0.01, offsetof(rank_clocks, within), "");           /* barriers took that */
}

static void each_clock_is_compared(void **state)
{
    expect(9.0, offsetof(rank_clocks, kernel_seconds), "the clock of rank 1 lost 90.0 % against the kernel's own");
    expect(0.25, offsetof(rank_clocks, error), "the clock of rank 1 gained 25.0 % against the kernel's own");
    expect(1.0, offsetof(rank_clocks, uptime_seconds), "the clock of rank 1 lost 49.9 % against /proc/uptime");
    expect(0.5, offsetof(rank_clocks, within), "the clock of rank 1 gained 48.5 % against rank 0's");
    expect(-0.5, offsetof(rank_clocks, around), "the clock of rank 1 lost 49.5 % against rank 0's");
    expect(NAN, offsetof(rank_clocks, kernel_seconds), "the kernel tells rank 1 no time");
    expect(NAN, offsetof(rank_clocks, uptime_seconds), "");
}

/* The clock is between the kernel's answers, however busy the machine is. */
static void this_machine_is_in_order(void **state)
{
    clock_moment first = clock_compared_twice();
    for (int i = 0; i < 1000; i++) {
        clock_moment m = clock_compared();
        assert_true(m.width >= 0.0 && m.clock >= m.kernel && m.clock <= m.kernel + m.width && isnan(m.uptime));
        assert_true(m.kernel >= first.kernel);
    }
    assert_true(first.uptime > 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(each_clock_is_compared),
        cmocka_unit_test(this_machine_is_in_order),
    };
    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
