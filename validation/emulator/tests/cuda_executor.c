/* Properties of the CUDA machine only, on the emulated device: the report on the device (name, memory, clocks, power,
 * connections), order, clock, large copies, missing hardware. units/machine/executor.c tests what its executor has in
 * common with the host. */
#include "base/clock.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/device/device_clock.h"
#include "units/machine/fabric_ranks.h"
#include "units/machine/fatal.h"
#include <time.h>

/* ---- the device ---- */

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

/* ---- the executor ---- */

/* Without a wait, the result of another queue is sometimes missing. */
static void nothing_runs_ahead_of_being_asked(void **state)
{
    int late = 0;
    float *memory = machine_memory_take(MACHINE_CUDA, 64), other;
    tensor first = tensor_1d(memory, F32, 1), second = tensor_1d(memory + 1, F32, 1);
    test_floor f = floor_open((machine_options){ 0 }, 64);
    for (int round = 1; round < 100; round++) {
        for (int i = 0; i <= 20; i++) submit(f.q[1], "other", fill_op(second, i < 20 ? 0 : round));
        mark_sync(submit(f.q[0], "own", fill_op(first, round)));
        machine_read(f.m, &other, second);
        late += other != (float)round;
        machine_sync(f.m);
    }
    assert_true(late > 0);
    floor_close(&f);
    machine_memory_give_back(MACHINE_CUDA, memory);
}

static cudaEvent_t reach(cudaStream_t stream)
{
    cudaEvent_t event;
    CUDA_CHECK(cudaEventCreate(&event));
    CUDA_CHECK(cudaEventRecord(event, stream));
    CUDA_CHECK(cudaEventSynchronize(event));
    return event;
}

/* The device clock, uncorrected here, differs from the host's by one constant for all events, even after its origin
 * moves to a later event: with some constant, each event lies between the host's times before and after it. A time is a
 * sum of floats of at most 4.2 s in milliseconds, each with an error of at most 0.25 us: two if the origin has
 * moved. */
static void the_clock_counts_from_a_later_event(void **state)
{
    enum { EVENTS = 5, LATE = 2 };
    cudaStream_t stream;
    cudaEvent_t event[EVENTS];
    double least = -INFINITY, most = INFINITY;
    device_clock *c = device_clock_open();
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < EVENTS; i++) {
        if (i == LATE) nanosleep(&(struct timespec){ 4, 100000000 }, NULL);
        double before = clock_seconds();
        event[i] = reach(stream);
        double after = clock_seconds(), time = device_clock_time(c, event[i], -INFINITY, INFINITY);
        least = fmax(least, before - time);
        most = fmin(most, after - time);
        cudaEvent_t given = event[i];
        device_clock_advance(c, &event[i], time);
        assert_true(event[i] != given || i != LATE);
    }
    assert_true(least <= most + 2 * 0.25e-6);
    for (int i = 0; i < EVENTS; i++) CUDA_CHECK(cudaEventDestroy(event[i]));
    CUDA_CHECK(cudaStreamDestroy(stream));
    device_clock_close(c);
}

/* Bounds observed by the host correct the clock from then on. */
static void the_clock_is_held_to_the_hosts(void **state)
{
    cudaStream_t stream;
    device_clock *c = device_clock_open();
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaEvent_t event = reach(stream);
    double time = device_clock_time(c, event, -INFINITY, INFINITY);
    assert_true(device_clock_time(c, event, time - 1.0, time + 1.0) == time);
    assert_true(device_clock_time(c, event, time + 5.0, time + 6.0) == time + 5.0);
    assert_true(fabs(device_clock_time(c, event, -INFINITY, INFINITY) - (time + 5.0)) < 1e-9);
    assert_true(device_clock_time(c, event, time + 2.0, time + 3.0) == time + 3.0);
    assert_true(fabs(device_clock_time(c, event, -INFINITY, INFINITY) - (time + 3.0)) < 1e-9);
    CUDA_CHECK(cudaEventDestroy(event));
    CUDA_CHECK(cudaStreamDestroy(stream));
    device_clock_close(c);
}

/* Copies more than the staging memory holds, at unaligned addresses. */
static void large_blocks_go_up_and_down(void **state)
{
    enum { BYTES = (20 << 20) + 12 };
    char *there = machine_memory_take(MACHINE_CUDA, BYTES + 64), *from = malloc(BYTES), *to = calloc(BYTES, 1);
    test_floor f = floor_open((machine_options){ 0 }, 64);
    for (int i = 0; i < BYTES; i++) from[i] = (char)((uint32_t)i * 2654435761u >> 13);
    machine_memory_clear(MACHINE_CUDA, there, 7, BYTES + 64);
    tensor t = tensor_1d(there + 4, I32, BYTES / 4);
    machine_upload(f.m, t, from);
    machine_sync(f.m);
    machine_read(f.m, to, t);
    assert_memory_equal(from, to, BYTES);
    machine_read(f.m, to, tensor_1d(there, I32, 1));
    machine_read(f.m, to + 4, tensor_1d(there + 4 + BYTES, I32, 1));
    for (int i = 0; i < 8; i++) assert_int_equal(to[i], 7);
    floor_close(&f);
    machine_memory_give_back(MACHINE_CUDA, there);
    free(from);
    free(to);
}

static void too_much_memory(void) { machine_memory_take(MACHINE_CUDA, (size_t)1 << 46); }

/* Without NVML, clocks and power are unknown. */
static void no_nvml(void)
{
    setenv("EMULATOR_NVML", "0", 1);
    machine_device d = machine_device_of(MACHINE_CUDA);
    if (d.clock_hertz != 0.0 || d.power_watts != 0.0 || d.clocks_known || d.throttled || d.throttle_reasons[0]) return;
    printf("driver %s\n", d.driver);
    exit(1);
}

/* The machine is refused with a reason. Taking memory nevertheless ends the run. */
static void no_device(void)
{
    char why[200] = "";
    setenv("EMULATOR_DEVICES", "0", 1);
    if (machine_usable(MACHINE_CUDA, why, sizeof why) || strcmp(why, "no GPU is visible to this process") != 0) return;
    machine_memory_take(MACHINE_CUDA, 64);
}

static const fatal failures[] = {
    { "too_much_memory", too_much_memory, "the case's arena needs 65536.00 GiB on" },
    { "no_nvml", no_nvml, "driver CUDA 13.0" },
    { "no_device", no_device, "the CUDA backend cannot run: no GPU is visible to this process" },
};
enum { FAILURES = sizeof failures / sizeof *failures };
static const char *own_path;

static void failures_are_named(void **state)
{
    for (int i = 0; i < FAILURES; i++) assert_fatal(own_path, &failures[i]);
}

int main(int count, char **arguments)
{
    if (count > 1) return fatal_run(failures, FAILURES, arguments[1]), 0;
    own_path = arguments[0];
    TESTS(tests, the_device_is_named, the_device_says_how_it_is, connections_are_enough,
          the_environment_is_looked_through, nothing_runs_ahead_of_being_asked, the_clock_counts_from_a_later_event,
          the_clock_is_held_to_the_hosts, large_blocks_go_up_and_down, failures_are_named);
    return cmocka_run_group_tests_name("cuda_executor", tests, NULL, NULL);
}
