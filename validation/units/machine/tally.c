/* The tally: the submitted work, equal on every machine, and the time that it took. */
#include "base/clock.h"
#include "machine/queue/submit.h"
#include "units/tests.h"
#include <time.h>

static float a[64], b[64], c[64];
static group alone = { .axis = "data", .size = 1, .handle = -1 }, other = { .axis = "tensor", .size = 1, .handle = -1 };

static void submit_all(machine *m)
{
    queue *q = machine_queue(m, "compute"), *talk = machine_queue(m, "talk");
    static char scratch[2][1 << 16];
    queue_set_scratch(q, scratch[0], sizeof scratch[0]);
    queue_set_scratch(talk, scratch[1], sizeof scratch[1]);
    origin asks = { .step = 0, .microbatch = -1, .chunk = -1, .layer = -1, .phase = PHASE_FORWARD };
    machine_origin(m, asks);
    submit(q, "a", fill_op(tensor_1d(a, F32, 64), 2.0));
    asks.phase = PHASE_BACKWARD;
    machine_origin(m, asks);
    submit(q, "b", fill_op(tensor_1d(b, F32, 64), 3.0));
    submit(q, "c", matmul_op(tensor_2d(c, F32, 4, 8), WRITE, tensor_2d(a, F32, 4, 2), tensor_2d(b, F32, 2, 8)));
    queue_wait(talk, queue_mark(q));
    submit(talk, "c", all_reduce_op(&alone, tensor_1d(c, F32, 32)));
    submit(talk, "a", all_gather_op(&alone, tensor_1d(a, F32, 16), tensor_none()));
    submit(talk, "b", all_reduce_op(&other, tensor_1d(b, BF16, 10)));
    machine_sync(m);
}

static void check_counts(const tally *t)
{
    assert_int_equal(t->kind[OP_FILL].count, 2);
    assert_int_equal(t->kind[OP_MATMUL].count, 1);
    assert_int_equal(t->kind[OP_ALL_REDUCE].count, 2);
    assert_int_equal(t->kind[OP_COPY].count, 0);
    assert_true(t->kind[OP_FILL].bytes == 2 * 64 * 4 && t->kind[OP_FILL].flops == 0.0);
    assert_true(t->kind[OP_MATMUL].flops == 2.0 * 4 * 8 * 2 && t->kind[OP_MATMUL].bytes == 4.0 * (32 + 8 + 16));
    assert_true(t->kind[OP_ALL_REDUCE].bytes == 4 * 32 + 2 * 10);
    assert_int_equal(t->axes, 2);
    assert_string_equal(t->axis[0].axis, "data");
    assert_string_equal(t->axis[1].axis, "tensor");
    assert_true(t->axis[0].messages == 2 && t->axis[0].bytes == 4 * (32 + 16));
    assert_true(t->axis[1].messages == 1 && t->axis[1].bytes == 2 * 10);
}

static void counts_are_equal_on_every_machine(void **state)
{
    static const machine_options machines[] = {
        { .on_paper = true }, { .hostile = true }, { .prove_access = true }, { .kind = MACHINE_CUDA, .on_paper = true }
    };
    for (int i = 0; i < 4; i++) {
        machine *m = machine_open(&machines[i]);
        submit_all(m);
        check_counts(machine_tally(m));
        machine_close(m);
    }
}

static void seconds_are_those_of_execution(void **state)
{
    machine *m = machine_open(&(machine_options){ 0 });
    tally *t = machine_tally(m);
    submit_all(m);
    double computing = t->kind[OP_FILL].seconds + t->kind[OP_MATMUL].seconds;
    double talking = t->kind[OP_ALL_REDUCE].seconds + t->kind[OP_ALL_GATHER].seconds;
    assert_true(t->kind[OP_FILL].seconds > 0.0 && t->kind[OP_MATMUL].seconds > 0.0 && talking > 0.0);
    assert_true(t->phase_seconds[PHASE_FORWARD] > 0.0 && t->phase_seconds[PHASE_BACKWARD] > 0.0 &&
                t->phase_seconds[PHASE_SETUP] == 0.0);
    assert_true(fabs(t->phase_seconds[PHASE_FORWARD] + t->phase_seconds[PHASE_BACKWARD] - computing) < 1e-12);
    assert_true(t->run_seconds >= computing && t->dispatch_seconds > 0.0);
    for (int i = 0; i < t->transfers; i++) {
        talking -= t->transfer[i].seconds;
        assert_true(t->transfer[i].bytes_per_second * t->transfer[i].seconds <= 1.000001 * t->transfer[i].bytes);
    }
    assert_true(t->transfers == 3 && fabs(talking) < 1e-12);
    const tally before = *t;
    tally_begin(t, 1);
    assert_true(t->run_seconds == 0.0 && t->kind[OP_MATMUL].seconds == 0.0 && t->phase_seconds[PHASE_BACKWARD] == 0.0 &&
                t->dispatch_seconds == 0.0 && t->transfers == 0 && t->kind[OP_FILL].count == 0);
    assert_int_equal(t->axes, before.axes);
    for (int i = 0; i < t->axes; i++)
        assert_true(t->axis[i].axis == before.axis[i].axis && t->axis[i].messages == 0 && t->axis[i].bytes == 0.0);
    for (int64_t step = 0; step < 2; step++) { /* an operation of step 0 completes late, and does not count */
        machine_origin(m, (origin){ .step = step, .phase = PHASE_FORWARD });
        submit(machine_queue_at(m, 0), "a", fill_op(tensor_1d(a, F32, 64), 2.0));
        machine_sync(m);
        assert_true((t->phase_seconds[PHASE_FORWARD] > 0.0) == (step == 1));
    }
    tally_clear(t);
    assert_int_equal(t->axes, 0);
    machine_close(m);
}

/* Seconds are kept for the chosen steps, by the step in the operation's origin, whenever it runs. */
static void seconds_are_kept_by_step(void **state)
{
    machine *m = machine_open(&(machine_options){ 0 });
    machine_keep_steps(m, 1);
    const tally *t = machine_tally(m);
    submit_all(m);
    double computing = t->phase_seconds[PHASE_FORWARD] + t->phase_seconds[PHASE_BACKWARD];
    machine_origin(m, (origin){ .step = 1, .phase = PHASE_FORWARD });
    submit(machine_queue_at(m, 0), "a", fill_op(tensor_1d(a, F32, 64), 2.0));
    machine_sync(m);
    const tally_step *step = machine_steps(m);
    assert_true(fabs(step->computing - computing) < 1e-12);
    assert_true(t->phase_seconds[PHASE_FORWARD] + t->phase_seconds[PHASE_BACKWARD] > computing);
    assert_true(step->run_delay >= 0.0 && step->run_delay <= computing);
    for (int x = 0; x < t->axes; x++) {
        double kinds = 0.0;
        for (int i = 0; i < t->transfers; i++)
            kinds +=
                strncmp(t->transfer[i].name, t->axis[x].axis, strlen(t->axis[x].axis)) ? 0.0 : t->transfer[i].seconds;
        assert_true(fabs(step->collectives[x] - kinds) < 1e-12);
        assert_true(step->exposed[x] == t->axis[x].exposed_seconds);
    }
    machine_close(m);
}

/* As with gradients of experts and the others: the second group is inside the first; the order does not matter. */
static void the_largest_group_of_an_axis_counts(void **state)
{
    static group large = { .axis = "gradient", .size = 1, .first = 2, .handle = -1 },
                 small = { .axis = "gradient", .size = 1, .first = 6, .handle = -1 };
    group *const order[][2] = { { &large, &small }, { &small, &large } };
    for (int i = 0; i < 2; i++) {
        machine *m = machine_open(&(machine_options){ .on_paper = true });
        queue *talk = machine_queue(m, "talk");
        for (int j = 0; j < 2; j++) submit(talk, "a", all_reduce_op(order[i][j], tensor_1d(a, F32, 16)));
        assert_int_equal(machine_tally(m)->axis[0].first, 2);
        machine_close(m);
    }
}

/* Returns the dispatch time as a fraction of the time of 5000 submissions to a ring of fewer operations. undisturbed:
 * no other process had this one's core for more than a twentieth of the time. */
static double dispatch_share(bool *undisturbed)
{
    static float large[1 << 16];
    machine *m = machine_open(&(machine_options){ 0 });
    queue *q = machine_queue(m, "compute");
    double begin = clock_seconds();
    clock_t used = clock();
    for (int i = 0; i < 5000; i++) submit(q, "x", fill_op(tensor_1d(large, F32, 1 << 16), 1.0));
    *undisturbed = (double)(clock() - used) / CLOCKS_PER_SEC > 0.95 * (clock_seconds() - begin);
    const tally *t = machine_tally(m);
    assert_true(t->run_seconds > 0.0);
    double share = t->dispatch_seconds / (t->dispatch_seconds + t->run_seconds);
    machine_sync(m);
    machine_close(m);
    return share;
}

/* Operations that run because a ring is full count as execution, not as dispatch. On a busy machine this process may
 * lose its core during dispatch: it needs one attempt that passes, and is skipped if every attempt was disturbed. */
static void a_full_ring_is_no_dispatch(void **state)
{
    bool undisturbed = false, quiet = false;
    for (int i = 0; i < 10; i++) {
        if (dispatch_share(&undisturbed) < 0.2) return;
        quiet = quiet || undisturbed;
    }
    if (!quiet) print_message("# skipped: in each of 10 attempts other processes had this one's core\n"), skip();
    fail_msg("submitting to a full ring counts as dispatch");
}

static void paper_takes_no_time(void **state)
{
    machine *m = machine_open(&(machine_options){ .on_paper = true });
    int64_t spans = 7;
    submit_all(m);
    assert_true(machine_tally(m)->run_seconds == 0.0 && machine_tally(m)->kind[OP_MATMUL].seconds == 0.0);
    assert_null(machine_spans(m, &spans));
    assert_int_equal(spans, 0);
    machine_close(m);
}

/* 48 floats over four ranks: a ring sends three quarters to gather or scatter, and twice as much to all-reduce. */
static void sent_bytes_are_those_of_a_ring(void **state)
{
    static float whole[48], arrived[48], part[12], out[48];
    group ring = { .axis = "tensor", .size = 4, .handle = -1 };
    machine *m = machine_open(&(machine_options){ .on_paper = true });
    queue *q = machine_queue(m, "talk");
    const double *sent = &machine_tally(m)->axis[0].sent;
    submit(q, "in place", all_gather_op(&ring, tensor_1d(whole, F32, 48), tensor_none()));
    assert_true(*sent == 3 * 48);
    submit(q, "apart", all_gather_op(&ring, tensor_1d(whole, F32, 48), tensor_1d(part, F32, 12)));
    assert_true(*sent == 6 * 48);
    submit(q, "in place", reduce_scatter_op(&ring, tensor_1d(whole, F32, 48)));
    assert_true(*sent == 9 * 48);
    submit(q, "parts", all_to_all_op(&ring, tensor_1d(arrived, F32, 48), tensor_1d(whole, F32, 48)));
    assert_true(*sent == 12 * 48);
    submit(q, "whole", all_reduce_op(&ring, tensor_1d(whole, F32, 48)));
    assert_true(*sent == 18 * 48);
    const transfer both[] = { { true, 1, tensor_1d(part, F32, 12) }, { false, 3, tensor_1d(out, F32, 24) } };
    submit(q, "exchange", exchange_op(&ring, both, 2));
    assert_true(*sent == 18 * 48 + 48 && machine_tally(m)->axis[0].messages == 6);
    const tally_transfer *kind = machine_tally(m)->transfer;
    assert_int_equal(machine_tally(m)->transfers, 5);
    assert_string_equal(kind[0].name, "tensor all_gather");
    assert_true(kind[0].messages == 2 && kind[0].bytes == 6 * 48);
    assert_string_equal(kind[4].name, "tensor exchange");
    assert_true(kind[4].messages == 1 && kind[4].bytes == 96); /* it receives more */
    machine_close(m);
}

TEST_PROGRAM("tally", NULL, NULL, counts_are_equal_on_every_machine, seconds_are_those_of_execution,
             seconds_are_kept_by_step, the_largest_group_of_an_axis_counts, a_full_ring_is_no_dispatch,
             paper_takes_no_time, sent_bytes_are_those_of_a_ring)
