/* The CUDA executor and transfers on two ranks: waits of computing count as exposed, and collectives run in order of
 * submission. With an argument, for machine/cuda_stall.t: failures that end the run, because rank 1 is missing. */
#include "base/clock.h"
#include "machine/cuda/device/call.h"
#include "machine/queue/submit.h"
#include "machine/watch/watch.h"
#include "machine/world.h"
#include "units/machine/sharing.h"
#include "units/tests.h"
#include <time.h>

enum { QUEUES = 4, FLOATS = 1 << 10, LARGE = 1 << 16 };
enum { COMPUTE, FIRST, SECOND, THIRD };

static float *device;                /* [FLOATS + 2 * LARGE] */
static group ways[2], turns[2], all; /* ways: from rank 0 to 1, and back */
static struct {
    machine *m;
    queue *q[QUEUES];
} f;

static tensor cell(int i) { return tensor_1d(device + i, F32, 1); }
static tensor large(int i) { return tensor_1d(device + FLOATS + i * LARGE, F32, LARGE); }

static void connect(group *g, const char *axis, bool apart, fabric_channel channel)
{
    char name[SPLIT_NAME];
    *g = group_line(axis, 0, 1, world_ranks(), world_rank());
    g->apart = apart;
    g->channel = channel;
    snprintf(name, sizeof name, "%s %d", axis, (int)channel);
    group_connect(MACHINE_CUDA, g, name, 0, world_rank());
}

static int open_floor(void **state)
{
    f.m = machine_open(&(machine_options){ .kind = MACHINE_CUDA, .world_rank = world_rank(), .span_capacity = 100 });
    for (int i = 0; i < QUEUES; i++) f.q[i] = machine_queue(f.m, "queue");
    submit(f.q[COMPUTE], "rehearsal",
           copy_op(cell(1), WRITE, cell(0))); /* a kernel's first launch may wait for all queues */
    mark_sync(submit(f.q[COMPUTE], "rehearsal", fill_op(cell(1), 1.0)));
    tally_clear(machine_tally(f.m));
    machine_memory_clear(MACHINE_CUDA, device, 0, (FLOATS + 2 * LARGE) * sizeof *device);
    world_barrier();
    return 0;
}

static int close_floor(void **state)
{
    machine_sync(f.m);
    machine_close(f.m);
    return 0;
}

/* Sends to or receives from the other rank. */
static mark pass(queue *q, const char *name, group *g, bool send, tensor x)
{
    const transfer t = { send, 1 - world_rank(), x };
    return submit(q, name, exchange_op(g, &t, 1));
}

static void sleep_for(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

static double exposed_on(const char *axis)
{
    const tally *t = machine_tally(f.m);
    for (int i = 0; i < t->axes; i++)
        if (strcmp(t->axis[i].axis, axis) == 0) return t->axis[i].exposed_seconds;
    return -1.0;
}

/* If both ranks of a node see the same two devices, each takes one. If each sees only its own, each takes its first. */
static void each_rank_has_a_device_of_its_own(void **state)
{
    int device_number, devices;
    machine_device own = machine_device_of(MACHINE_CUDA);
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    CUDA_CHECK(cudaGetDevice(&device_number));
    machine_device *found = world_gather(&own, sizeof own);
    assert_int_equal(device_number, world_node_rank() % devices);
    assert_true(!found || machine_shares_devices() || strcmp(found[0].identity, found[1].identity) != 0);
    free(found);
}

/* Rank 1 sends late. On rank 0 one operation waits for the message from its submission on; an independent one is not
 * delayed. The ranks of one node have the same clock. */
static void computing_that_waits_for_a_transfer_is_exposed(void **state)
{
    double sent = 0.0;
    if (world_rank() == 1) {
        sleep_for(0.2);
        sent = clock_seconds();
        mark_sync(pass(f.q[FIRST], "late", &ways[1], true, cell(0)));
    }
    if (world_rank() == 0) {
        mark came = pass(f.q[FIRST], "late", &ways[1], false, cell(0));
        mark free = submit(f.q[COMPUTE], "free", fill_op(cell(1), 1.0));
        queue_wait(f.q[COMPUTE], came);
        double before = clock_seconds();
        mark done = submit(f.q[COMPUTE], "waits", copy_op(cell(2), WRITE, cell(0)));
        double after = clock_seconds();
        mark_sync(done);
        double end = clock_seconds(), exposed = exposed_on("pipeline");
        world_maximum(&sent, 1);
        assert_true(mark_time(free) < sent && mark_time(came) >= sent && mark_time(done) >= mark_time(came));
        double ready = fmax(after, mark_time(free));
        assert_true(exposed >= sent - ready && exposed <= end - before);
        assert_true(machine_tally(f.m)->kind[OP_COPY].seconds <= end - sent);
        assert_true(machine_tally(f.m)->kind[OP_EXCHANGE].seconds >= sent - after);
    } else {
        world_maximum(&sent, 1);
    }
}

static void a_transfer_nobody_waits_for_is_not_exposed(void **state)
{
    tensor x = cell(3);
    if (world_rank() == 1) sleep_for(0.05);
    mark came = pass(f.q[FIRST], "late", &ways[1], world_rank() == 1, x);
    for (int i = 0; i < 20; i++) mark_sync(submit(f.q[COMPUTE], "free", fill_op(cell(4), 1.0)));
    mark_sync(came);
    assert_true(exposed_on("pipeline") == 0.0);
}

/* Three groups that take turns, on queues without other order. If a transfer waits for another, computing loses
 * nothing. */
static void collectives_run_in_the_order_of_submission(void **state)
{
    for (int round = 0; round < 30; round++) {
        mark m[3] = { submit(f.q[FIRST], "a", all_reduce_op(&turns[0], large(0))),
                      submit(f.q[SECOND], "b", all_reduce_op(&turns[1], cell(20))),
                      submit(f.q[THIRD], "c", all_gather_op(&all, tensor_1d(device + 30, F32, 2), tensor_none())) };
        machine_sync(f.m);
        assert_true(mark_time(m[0]) <= mark_time(m[1]) && mark_time(m[1]) <= mark_time(m[2]));
    }
    assert_true(exposed_on("gradient") == 0.0 && exposed_on("data") == 0.0);
}

/* Rank 1 sends nothing. The last operation depends on that message through three others. */
static void absent(void)
{
    watch_limit(1.0);
    if (world_rank() == 1) world_barrier();
    machine_origin(f.m, (origin){ .step = 2, .microbatch = 3, .chunk = -1, .layer = 4, .phase = PHASE_BACKWARD });
    queue_wait(f.q[COMPUTE], pass(f.q[FIRST], "gradient", &ways[1], false, cell(0)));
    queue_wait(f.q[SECOND], submit(f.q[COMPUTE], "next", copy_op(cell(1), WRITE, cell(0))));
    submit(f.q[SECOND], "other", fill_op(cell(2), 1.0));
    mark_sync(submit(f.q[SECOND], "last", fill_op(cell(3), 1.0)));
}

/* Fills a ring with operations after a transfer that never comes. */
static void absent_behind_a_full_ring(void)
{
    watch_limit(1.0);
    if (world_rank() == 1) world_barrier();
    queue_wait(f.q[COMPUTE], pass(f.q[FIRST], "input", &ways[1], false, cell(0)));
    for (int i = 0; i < 10000; i++) submit(f.q[COMPUTE], "x", fill_op(cell(1), 1.0));
}

int main(int count, char **arguments)
{
    setenv("EMULATOR_DEVICES", "2", 0);
    world_start(&count, &arguments);
    device = machine_memory_take(MACHINE_CUDA, (FLOATS + 2 * LARGE) * sizeof *device);
    connect(&ways[0], "pipeline", true, CHANNEL_FORWARD);
    connect(&ways[1], "pipeline", true, CHANNEL_BACKWARD);
    connect(&all, "data", false, CHANNEL_ALL);
    connect(&turns[0], "gradient", false, CHANNEL_GRADIENT);
    connect(&turns[1], "model", false, CHANNEL_MODEL);
    if (count > 1) {
        open_floor(NULL);
        if (strcmp(arguments[1], "absent") == 0) absent();
        else absent_behind_a_full_ring();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_has_a_device_of_its_own),
        cmocka_unit_test_setup_teardown(computing_that_waits_for_a_transfer_is_exposed, open_floor, close_floor),
        cmocka_unit_test_setup_teardown(a_transfer_nobody_waits_for_is_not_exposed, open_floor, close_floor),
        cmocka_unit_test_setup_teardown(collectives_run_in_the_order_of_submission, open_floor, close_floor),
    };
    int failed = cmocka_run_group_tests_name("cuda_executor_ranks", tests, NULL, NULL);
    machine_memory_give_back(MACHINE_CUDA, device);
    world_stop();
    return failed;
}
