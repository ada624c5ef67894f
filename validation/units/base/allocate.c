/* Allocated memory is zeroed, also 0 bytes. If memory runs out, the run ends with the exit status of a failure. */
#include "base/fail.h"
#include "base/memory.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static jmp_buf back;
static void jump(int status) { longjmp(back, status); }

static void comes_as_zeros(void **state)
{
    (void)state;
    int64_t *x = allocate(1000, sizeof *x, "a test");
    for (int i = 0; i < 1000; i++) assert_int_equal(x[i], 0);
    x[999] = 7;
    x = reallocate(x, 2000, sizeof *x, "a test");
    assert_int_equal(x[999], 7);
    free(x);
    x = allocate(0, sizeof *x, "a test");
    assert_non_null(x);
    free(x);
}

/* In the last row the product overflows to 16 (modulo 2^64). */
static void ends_the_run(void **state)
{
    (void)state;
    const int64_t count[] = { INT64_MAX, -1, ((int64_t)1 << 60) + 1 };
    for (volatile int i = 0; i < 6; i++) {
        int status = setjmp(back);
        if (status == 0)
            free(i % 2 ? reallocate(NULL, count[i / 2], 16, "a test") : allocate(count[i / 2], 16, "a test"));
        assert_int_equal(status, STATUS_FAILED);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(comes_as_zeros), cmocka_unit_test(ends_the_run) };
    fail_install(jump, "allocate");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
