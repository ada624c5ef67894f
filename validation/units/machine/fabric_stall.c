/* Slow ranks and pauses do not end a run. machine/hangs.t tests what does. */
#include "fabric_ranks.h"
#include "machine/watch/watch.h"
#include <time.h>

enum { LARGE = 100000, LIMIT = 5 }; /* seconds; on a busy machine a rank may wait three seconds for its turn */

static test_group all;
static test_floor f;
static float x[LARGE];

static bool misbehaves(void) { return world_rank() == world_ranks() - 1; }

static void sleep_for(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

static void reduce(int64_t n) { mark_sync(submit(f.q[1], "gradients", all_reduce_op(&all.g, tensor_1d(x, F32, n)))); }

/* Takes longer than the limit, but completes an operation every fifth of it. */
static void a_slow_rank_that_completes_operations_is_waited_for(void **state)
{
    for (int i = 0; misbehaves() && i < 6; i++) {
        mark_sync(submit(f.q[0], "slow", fill_op(tensor_1d(x, F32, LARGE), 1.0)));
        sleep_for(0.2 * LIMIT);
    }
    reduce(LARGE);
}

/* Nothing runs for longer than the limit, but no rank waits. */
static void a_pause_in_which_nobody_waits_is_no_stall(void **state)
{
    reduce(3);
    sleep_for(1.25 * LIMIT);
    reduce(3);
    world_barrier();
}

int main(int count, char **arguments)
{
    TESTS(tests, a_slow_rank_that_completes_operations_is_waited_for, a_pause_in_which_nobody_waits_is_no_stall);
    world_start(&count, &arguments);
    watch_limit(LIMIT);
    group_of_all(&all);
    f = floor_open((machine_options){ 0 }, LARGE * 4 * 8);
    int failures = cmocka_run_group_tests_name("fabric_stall", tests, NULL, NULL);
    floor_close(&f);
    group_close(&all);
    world_stop();
    return failures;
}
