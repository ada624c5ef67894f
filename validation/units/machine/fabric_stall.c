/* A slow rank is waited for. With arguments, what goes wrong between ranks, for validation/machine/stall.t:
 *   fabric_stall SCENE STALL_SECONDS
 * In every scene the last rank misbehaves. */
#include "fabric_ranks.h"
#include "machine/watch/watch.h"
#include <signal.h>
#include <time.h>

/* Seconds, of which a busy machine may take two for a rank's turn, and more until all have started. */
enum { LARGE = 100000, QUICK_LIMIT = 3, START_LIMIT = 20 };

static test_group all;
static test_floor f;
static float x[LARGE];
static double limit;

static bool misbehaves(void) { return world_rank() == world_ranks() - 1; }

static void sleep_for(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

static void reduce(int64_t n) { mark_sync(submit(f.q[1], "gradients", all_reduce_op(&all.g, tensor_1d(x, F32, n)))); }
static void gather(int64_t n)
{
    mark_sync(submit(f.q[2], "weights", all_gather_op(&all.g, tensor_1d(x, F32, n * all.g.size), tensor_none())));
}

static void absent(void)
{
    if (!misbehaves()) reduce(3);
}

static void absent_large(void)
{
    if (!misbehaves()) reduce(LARGE);
}

static void absent_from_sum(void)
{
    double one = 1.0;
    if (!misbehaves()) world_sum(&one, 1);
    else reduce(3);
}

static void absent_from_split(void)
{
    if (misbehaves()) sleep_for(1000.0);
    world_split("absent", 0, world_rank());
}

static void absent_at_the_end(void)
{
    if (misbehaves()) sleep_for(1000.0);
    world_stop();
}

/* As SIGSTOP to this process. */
static void stopped(void)
{
    if (misbehaves()) assert_int_equal(system("kill -STOP $PPID"), 0);
    gather(5);
}

/* Longer than the limit, but with an operation every fifth of it. */
static void a_slow_rank_that_completes_operations_is_waited_for(void **state)
{
    for (int i = 0; misbehaves() && i < 8; i++) {
        mark_sync(submit(f.q[0], "slow", fill_op(tensor_1d(x, F32, LARGE), 1.0)));
        sleep_for(0.2 * limit);
    }
    reduce(LARGE);
}

/* Nobody does anything for longer than the limit, and nobody waits either. */
static void a_pause_in_which_nobody_waits_is_no_stall(void **state)
{
    reduce(3);
    sleep_for(1.25 * limit);
    reduce(3);
    world_barrier();
}

/* The last rank sends n numbers to rank 0, which expects 8. */
static void send_to_rank_0(int64_t n)
{
    transfer in = { false, world_ranks() - 1, tensor_1d(x, F32, 8) }, out = { true, 0, tensor_1d(x, F32, n) };
    mark_sync(submit(f.q[3], "activations",
                     exchange_op(&all.g, misbehaves() ? &out : &in, misbehaves() || world_rank() == 0)));
}

static void lost(void)
{
    signal(SIGTERM, SIG_IGN); /* as a run that ends its step first */
    if (misbehaves()) raise(SIGKILL);
    reduce(3);
}

static void short_message(void) { send_to_rank_0(4); }
static void long_message(void) { send_to_rank_0(12); }

/* Before there is a rank. */
static void stop_at_the_start(const char *scene)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank && strcmp(rank, "2") == 0 && strcmp(scene, "stopped_at_the_start") == 0) raise(SIGSTOP);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = {
    { "absent", absent },
    { "absent_large", absent_large },
    { "absent_from_sum", absent_from_sum },
    { "absent_from_split", absent_from_split },
    { "absent_at_the_end", absent_at_the_end },
    { "stopped", stopped },
    { "lost", lost },
    { "short_message", short_message },
    { "long_message", long_message },
};

static void play(const char *name)
{
    machine_origin(f.m, (origin){ .step = 2, .microbatch = -1, .chunk = -1, .layer = -1, .phase = PHASE_GRADIENT });
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(scenes[i].name, name) == 0) scenes[i].run();
    world_barrier();
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_rank_that_completes_operations_is_waited_for),
        cmocka_unit_test(a_pause_in_which_nobody_waits_is_no_stall),
    };
    int failures = 0;
    limit = count == 3 ? strtod(arguments[2], NULL) : QUICK_LIMIT;
    bool starts = count != 3 || strcmp(arguments[1], "stopped_at_the_start") != 0;
    watch_limit(starts ? START_LIMIT : limit);
    if (count == 3) stop_at_the_start(arguments[1]);
    world_start(&count, &arguments);
    watch_limit(limit);
    group_of_all(&all);
    f = floor_open((machine_options){ 0 }, LARGE * 4 * 8);
    if (count == 3) play(arguments[1]);
    else failures = cmocka_run_group_tests_name("fabric_stall", tests, NULL, NULL);
    world_stop();
    return failures;
}
