/* The CUDA machine's report on its device: name, memory, clocks, power, and connections. */
#include "machine/queue/machine.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void the_device_is_named(void **state)
{
    machine_device d = machine_device_of(MACHINE_CUDA);
    char text[400], why[200] = "";
    if (!machine_usable(MACHINE_CUDA, why, sizeof why)) fail_msg("not usable: %s", why);
    assert_true(d.name[0] && d.multiprocessors > 0 && d.memory_bytes >= d.free_bytes && d.free_bytes > 0.0);
    assert_int_equal(strlen(d.identity), strlen("GPU-00000000-0000-0000-0000-000000000000"));
    assert_int_equal(strspn(d.identity + 4, "0123456789abcdef-"), 36);
    assert_non_null(strstr(machine_library(MACHINE_CUDA, text, sizeof text), "cuBLASLt"));
}

/* The answers of the emulated NVML, and the names of its bits. */
static void the_device_says_how_it_is(void **state)
{
    static const struct {
        const char *bits, *words;
        bool throttled;
    } seen[] = {
        { "0", "", false },
        { "0x1", "idle", false },
        { "0x6", "application clocks, power cap", false },
        { "0x48", "hardware slowdown, hardware temperature", true },
        { "0x20", "temperature", true },
        { "0x80", "power brake", true },
        { "0x110", "sync boost, display clocks", false },
        { "0x1000", "", false },
    };
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        setenv("EMULATOR_CLOCKS_EVENTS", seen[i].bits, 1);
        machine_device d = machine_device_of(MACHINE_CUDA);
        assert_string_equal(d.throttle_reasons, seen[i].words);
        assert_true(d.clocks_known && d.throttled == seen[i].throttled);
        assert_true(fabs(d.clock_hertz - 1755e6) < 1.0 && fabs(d.power_watts - 612.5) < 1e-9 && d.ecc);
        assert_string_equal(d.driver, "580.65.06, CUDA 13.0");
    }
    setenv("EMULATOR_CLOCKS_EVENTS", "0x1ff", 1);
    machine_device d = machine_device_of(MACHINE_CUDA);
    assert_true(d.throttled && strlen(d.throttle_reasons) < sizeof d.throttle_reasons);
    assert_true(strcmp(d.bus, "00000000:3B:00.0") == 0 && !d.serial[0]);
    assert_true(fabs(d.power_limit_watts - 700.0) < 1e-9 && fabs(d.clock_limit_hertz - 1.98e9) < 1.0);
    unsetenv("EMULATOR_CLOCKS_EVENTS");
}

/* A sufficient number of connections set by the user is kept. A smaller number is raised, and the old value is
 * recorded. */
static void connections_are_enough(void **state)
{
    static const char name[] = "CUDA_DEVICE_MAX_CONNECTIONS", raised[] = "XGSW_RAISED_CUDA_DEVICE_MAX_CONNECTIONS_FROM";
    static const struct {
        const char *given, *used, *was;
    } cases[] = { { "32", "32", NULL }, { "31", "32", "31" }, { NULL, "32", NULL } };
    for (int i = 0; i < 3; i++) {
        unsetenv(name);
        unsetenv(raised);
        if (cases[i].given) setenv(name, cases[i].given, 1);
        machine_environment();
        assert_string_equal(getenv(name), cases[i].used);
        assert_int_equal(getenv(raised) != NULL, cases[i].was != NULL);
        if (cases[i].was) assert_string_equal(getenv(raised), cases[i].was);
    }
    unsetenv(raised);
}

/* Variables that change the layout of transfers are reported. A site's file cannot set the unset ones. */
static void the_environment_is_looked_through(void **state)
{
    char why[400] = "";
    machine_environment();
    assert_true(machine_supports_ranks(MACHINE_CUDA, false, why, sizeof why));
    assert_string_equal(getenv("NCCL_MAX_CTAS"), "");
    assert_string_equal(getenv("NCCL_RUNTIME_CONNECT"), "0");
    setenv("NCCL_ALGO", "Ring", 1);
    assert_true(machine_supports_ranks(MACHINE_CUDA, false, why, sizeof why));
    setenv("NCCL_MAX_CTAS", "4", 1);
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    machine_environment();
    assert_false(machine_supports_ranks(MACHINE_CUDA, false, why, sizeof why));
    assert_non_null(strstr(why, ": unset NCCL_MAX_CTAS CUDA_LAUNCH_BLOCKING"));
    assert_true(machine_supports_ranks(MACHINE_HOST, false, why, sizeof why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_is_named),
        cmocka_unit_test(the_device_says_how_it_is),
        cmocka_unit_test(connections_are_enough),
        cmocka_unit_test(the_environment_is_looked_through),
    };
    return cmocka_run_group_tests_name("cuda_device", tests, NULL, NULL);
}
