/* Samples: reads the node's counters from folders like the system's, and tests the sampling thread with a scripted
 * device. */
#include "machine/sample/sampler.h"
#include "base/clock.h"
#include "bench/health/samples.h"
#include "machine/world.h"
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "units/folder.h"
#include "units/tests.h"

/* ---- the node ---- */

static node_meter meter;

static node_state look(void) { return node_read(&meter); }

static void nothing_is_told(void **state)
{
    node_open(&meter, folder, folder);
    node_add_core(&meter, 1);
    node_state n = look();
    assert_true(isnan(n.load) && isnan(n.core_hertz) && isnan(n.busy_seconds) && isnan(n.joules));
}

/* Counts cores 1 and 3. Waiting for I/O is idle time; time taken by a hypervisor is not. */
static void cores_are_counted(void **state)
{
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    write_below("loadavg", "15.86 12.97 8.47 16/195 18836\n");
    write_below("stat", "cpu  1111 222 333 444 5 6 7 8 0 0\ncpu0 1000 0 0 0 0 0 0 0 0 0\n"
                        "cpu1 100 20 3 7000 800 4 5 6 50 0\ncpu3 1 1 1 9 9 1 1 1 0 0\nintr 5 cpu1 100\n");
    write_below("cpuinfo", "cpu MHz\t\t: 2000.000\nmodel : x\ncpu MHz\t\t: 3000.000\n");
    node_open(&meter, folder, folder);
    node_add_core(&meter, 1);
    node_add_core(&meter, 3);
    node_add_core(&meter, 3);
    node_add_core(&meter, NODE_CORES);
    node_state n = look();
    assert_true(n.load == 15.0 && fabs(n.busy_seconds / tick - 144.0) < 1e-9);
    assert_true(n.core_hertz == 2.5e9);
    write_below("devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1200000\n");
    write_below("devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "3100000\n");
    assert_true(look().core_hertz == 2.15e9);
}

/* Two packages and a domain that contains both. The first counter wraps around, then one becomes unreadable. */
static void energy_is_added(void **state)
{
    write_below("class/powercap/intel-rapl:0/name", "package-0\n");
    write_below("class/powercap/intel-rapl:0/energy_uj", "900000000\n");
    write_below("class/powercap/intel-rapl:0/max_energy_range_uj", "1000000000\n");
    write_below("class/powercap/intel-rapl:1/name", "package-1\n");
    write_below("class/powercap/intel-rapl:1/energy_uj", "5000000\n");
    write_below("class/powercap/intel-rapl:1/max_energy_range_uj", "1000000000\n");
    write_below("class/powercap/intel-rapl:2/name", "psys\n");
    write_below("class/powercap/intel-rapl:2/energy_uj", "1\n");
    write_below("class/powercap/intel-rapl:2/max_energy_range_uj", "1000000000\n");
    node_open(&meter, folder, folder);
    assert_true(look().joules == 0.0);
    write_below("class/powercap/intel-rapl:0/energy_uj", "50000000\n");
    write_below("class/powercap/intel-rapl:1/energy_uj", "6500000\n");
    assert_true(fabs(look().joules - 151.5) < 1e-9);
    write_below("class/powercap/intel-rapl:1/energy_uj", "");
    assert_true(isnan(look().joules));
}

/* ---- the thread ---- */

static atomic_int looks, throttled_look;

/* The device uses one joule per sample, ten before the first. It is throttled in one sample. */
static void device(device_state *now)
{
    int n = ++looks;
    bool hot = n == throttled_look;
    *now = (device_state){ 1e9, 40.0 + n % 2, 300.0, 10.0 + n, .events = hot ? 0x40 : 4, .throttled = hot };
    snprintf(now->reasons, sizeof now->reasons, "%s", hot ? "hardware temperature" : "power cap");
}

static void endless(device_state *now)
{
    for (;;) pause();
}

static void sleep_milliseconds(long n)
{
    const struct timespec pause = { n / 1000, n % 1000 * 1000000 };
    nanosleep(&pause, NULL);
}

static void counters_begin_with_the_window(void **state)
{
    const sample_subject of = { .every = 0.005, .device = device };
    sampler *s = sampler_open(&of);
    looks = 0;
    throttled_look = 2;
    sampler_end(s); /* no window has begun */
    assert_int_equal(sampler_read(s).count, 0);
    double begin = clock_seconds();
    sampler_begin(s);
    while (looks < 3) sleep_milliseconds(5);
    sampler_end(s);
    sample_report r = sampler_read(s);
    assert_false(r.lost);
    assert_true(r.count >= 3 && r.count == looks);
    assert_true(r.list[0].device_joules == 0.0 && r.list[0].own_seconds == 0.0);
    assert_true(r.list[0].seconds >= 0.0 && r.list[r.count - 1].seconds <= clock_seconds() - begin);
    assert_true(fabs(r.list[r.count - 1].device_joules - (double)(r.count - 1)) < 1e-9);
    assert_true(isnan(r.list[0].load) && isnan(r.list[0].package_joules));
    assert_string_equal(r.throttled, "hardware temperature");
    assert_true(r.throttled_at == r.list[1].seconds && r.list[1].events == 0x40 && r.list[2].events == 4);
    sampler_close(s);
}

/* A long window keeps a bounded number of samples, at ever larger intervals. Throttling is kept from every reading, as
 * are the first and the last sample. */
static void memory_is_bounded(void **state)
{
    const sample_subject of = { .every = 0.0, .device = device };
    sampler *s = sampler_open(&of);
    looks = 0;
    throttled_look = 2 * SAMPLES_KEPT + 6;
    sampler_begin(s);
    while (looks < 5 * SAMPLES_KEPT) sleep_milliseconds(5);
    sampler_end(s);
    sample_report r = sampler_read(s);
    int held = 0;
    assert_true(r.count > SAMPLES_KEPT / 2 && r.count <= SAMPLES_KEPT);
    for (int64_t i = 0; i < r.count; i++) {
        held |= r.list[i].events;
        assert_true(i == 0 || r.list[i].seconds > r.list[i - 1].seconds);
        assert_true(i == r.count - 1 || r.list[i].temperature_most == 41.0);
        assert_true(i == r.count - 1 || r.list[i].device_joules == (double)i * r.list[1].device_joules);
    }
    assert_int_equal(held, 0x44);
    assert_true(r.list[0].device_joules == 0.0 && r.list[r.count - 1].device_joules == (double)(looks - 1));
    assert_string_equal(r.throttled, "hardware temperature");
    sampler_close(s);
}

/* If the driver does not answer, its samples are lost and the run waits two seconds; the report names the rank. */
static void a_driver_may_hang(void **state)
{
    const sample_subject of = { .every = 1.0, .device = endless };
    sampler *s = sampler_open(&of);
    sampler_begin(s);
    sampler_end(s);
    sample_report r = sampler_read(s);
    assert_true(r.count == 0 && r.lost);
    sample_set all;
    samples_gather(&all, &(sampled){ MACHINE_CUDA, 1, s, 0.0 });
    assert_string_equal(all.lost, "rank 0, whose samples were lost");
}

WORLD_PROGRAM("sampler", make_folder, remove_folder, nothing_is_told, cores_are_counted, energy_is_added,
              counters_begin_with_the_window, memory_is_bounded, a_driver_may_hang)
