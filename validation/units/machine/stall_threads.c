/* A world of one rank, without MPI. Two threads ask whether there is a stall, as the main thread and the one that
 * watches NCCL do. In check-long a sanitizer looks on (machine/thread_races.t). */
#include "base/clock.h"
#include "machine/watch/watch.h"
#include "machine/world.h"
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const double LIMIT = 2.0;
static atomic_bool done, alarmed;

static void *watch(void *unused)
{
    for (double began = clock_seconds(); !done;)
        if (world_stalled(began)) alarmed = true;
    return unused;
}

/* Seconds until it is seen, `most` at most. */
static double wait_for_alarm(double most)
{
    double began = clock_seconds();
    while (clock_seconds() - began < most && !world_stalled(began)) continue;
    return clock_seconds() - began;
}

static void progress_is_seen_by_both(void **state)
{
    pthread_t thread;
    watch_limit(LIMIT);
    assert_int_equal(pthread_create(&thread, NULL, watch, NULL), 0);
    for (double began = clock_seconds(); clock_seconds() - began < 1.5 * LIMIT;) {
        watch_progress();
        watch_allow(1.0);
        watch_allow(0.0);
        assert_false(world_stalled(began));
    }
    done = true;
    pthread_join(thread, NULL);
    assert_false(alarmed);
}

/* Last: the alarm is not taken back. */
static void what_is_allowed_is_waited_for(void **state)
{
    watch_limit(1.0);
    watch_allow(1.5);
    double seconds = wait_for_alarm(20.0);
    assert_true(seconds > 2.4 && seconds < 20.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(progress_is_seen_by_both),
                                        cmocka_unit_test(what_is_allowed_is_waited_for) };
    return cmocka_run_group_tests_name("stall_threads", tests, NULL, NULL);
}
