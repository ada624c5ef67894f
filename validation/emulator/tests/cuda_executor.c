/* The CUDA executor on the emulated device, which runs the heads of streams in random order: marks, waits, rings,
 * times, spans, the tally, scratch, poison, bytes up and down. Alone; the transfers' tests have ranks. */
#include "base/clock.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/device/device_clock.h"
#include "machine/submit.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

enum { QUEUES = 4, CELLS = 12, FLOATS = 1 << 10 };

static float *device; /* [FLOATS], zeros when a floor opens */

typedef struct {
    machine *m;
    queue *q[QUEUES];
} floor_of_queues;

static floor_of_queues open_floor(machine_options options)
{
    options.kind = MACHINE_CUDA;
    floor_of_queues f = { .m = machine_open(&options) };
    if (!device) device = machine_memory_take(MACHINE_CUDA, FLOATS * sizeof *device);
    machine_memory_clear(MACHINE_CUDA, device, 0, FLOATS * sizeof *device);
    for (int i = 0; i < QUEUES; i++) f.q[i] = machine_queue(f.m, "queue");
    return f;
}

static void close_floor(floor_of_queues *f)
{
    machine_sync(f->m);
    machine_close(f->m);
}

static tensor cell(int i) { return tensor_1d(device + i, F32, 1); }

/* What lies there now, whoever may be about to write it. */
static float value(const floor_of_queues *f, int i)
{
    float x;
    machine_read(f->m, &x, cell(i));
    return x;
}

static void set(const floor_of_queues *f, int i, float x) { machine_upload(f->m, cell(i), &x); }

static void mark_sync_waits_for_the_mark(void **state)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    for (int round = 1; round < 50; round++) {
        mark first = submit(f.q[0], "a", fill_op(cell(0), round));
        submit(f.q[0], "b", fill_op(cell(1), round));
        mark other = submit(f.q[1], "c", fill_op(cell(2), round));
        mark_sync(first);
        assert_true(value(&f, 0) == (float)round);
        mark_sync(other);
        assert_true(value(&f, 2) == (float)round);
        machine_sync(f.m);
        assert_true(value(&f, 1) == (float)round);
        mark_sync(first);
    }
    close_floor(&f);
}

/* An operation of another queue, not waited for, is at times not there yet. */
static void nothing_runs_ahead_of_being_asked(void **state)
{
    int late = 0;
    floor_of_queues f = open_floor((machine_options){ 0 });
    for (int round = 1; round < 100; round++) {
        for (int i = 0; i <= 20; i++) submit(f.q[1], "other", fill_op(cell(1), i < 20 ? 0 : round));
        mark_sync(submit(f.q[0], "own", fill_op(cell(0), round)));
        late += value(&f, 1) != (float)round;
        machine_sync(f.m);
    }
    assert_true(late > 0);
    close_floor(&f);
}

static void queues_wait_for_each_other(void **state)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    for (int round = 1; round <= 100; round++) {
        submit(f.q[0], "x", fill_op(cell(0), round));
        for (int i = 1; i < QUEUES; i++) {
            queue_wait(f.q[i], queue_mark(f.q[i - 1]));
            submit(f.q[i], "x", copy_op(cell(i), WRITE, cell(i - 1)));
        }
        mark_sync(queue_mark(f.q[QUEUES - 1]));
        assert_true(value(&f, QUEUES - 1) == (float)round);
        for (int i = 0; i < QUEUES - 1; i++) queue_wait(f.q[i], queue_mark(f.q[QUEUES - 1]));
    }
    assert_int_equal(machine_hazards(f.m)->count, 0);
    close_floor(&f);
}

/* Many rings' worth of operations, the queue that waits among them. */
static void a_full_ring_waits_for_the_device(void **state)
{
    enum { OPERATIONS = 3 * 4096 };
    mark last = { NULL, 0 };
    floor_of_queues f = open_floor((machine_options){ 0 });
    set(&f, 0, 1.0f);
    for (int i = 0; i < OPERATIONS; i++) {
        last = submit(f.q[0], "x", copy_op(cell(1), UPDATE, cell(0)));
        if (i % 1000 == 0) queue_wait(f.q[1], last);
        if (i % 10 == 0) submit(f.q[1], "y", copy_op(cell(2), UPDATE, cell(0)));
    }
    assert_true(machine_tally(f.m)->run_seconds > 0.0);
    queue_wait(f.q[2], last);
    mark_sync(submit(f.q[2], "z", copy_op(cell(3), WRITE, cell(1))));
    assert_true(value(&f, 3) == (float)OPERATIONS);
    machine_sync(f.m);
    assert_true(value(&f, 2) == (float)((OPERATIONS + 9) / 10));
    close_floor(&f);
}

/* Between the moment before the operation was submitted and the moment after it was waited for; in order within a
 * queue, and never before what was waited for. */
static void times_are_those_of_the_clock(void **state)
{
    enum { ROUNDS = 50 };
    double before = 0.0;
    floor_of_queues f = open_floor((machine_options){ 0 });
    for (int i = 0; i < ROUNDS; i++) {
        double submitted = clock_seconds();
        mark a = submit(f.q[0], "a", fill_op(cell(0), i));
        queue_wait(f.q[1], a);
        mark b = submit(f.q[1], "b", copy_op(cell(1), WRITE, cell(0)));
        mark_sync(b);
        double seen = clock_seconds();
        assert_true(submitted <= mark_time(a) && mark_time(a) <= mark_time(b) && mark_time(b) <= seen);
        assert_true(before <= mark_time(a));
        before = mark_time(b);
        queue_wait(f.q[0], b);
    }
    close_floor(&f);
}

static cudaEvent_t reach(cudaStream_t stream)
{
    cudaEvent_t event;
    CUDA_CHECK(cudaEventCreate(&event));
    CUDA_CHECK(cudaEventRecord(event, stream));
    CUDA_CHECK(cudaEventSynchronize(event));
    return event;
}

/* The clock's times, which nothing corrects here, are the host's but for one difference, the same for all events, also
 * after it counts from another event: some difference puts each event between the host's looks before and after it. A
 * time is a sum of floats of at most 4.2 s in milliseconds, each wrong by at most 0.25 us: two where the clock has
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
        for (double until = clock_seconds() + (i == LATE ? 4.1 : 0.0); clock_seconds() < until;) continue;
        double before = clock_seconds();
        event[i] = reach(stream);
        double after = clock_seconds(), time = device_clock_time(c, event[i], -INFINITY, INFINITY);
        least = fmax(least, before - time);
        most = fmin(most, after - time);
        cudaEvent_t given = event[i];
        device_clock_advance(c, &event[i], time);
        assert_true((event[i] != given) == (i == LATE));
    }
    assert_true(least <= most + 2 * 0.25e-6);
    for (int i = 0; i < EVENTS; i++) CUDA_CHECK(cudaEventDestroy(event[i]));
    CUDA_CHECK(cudaStreamDestroy(stream));
    device_clock_close(c);
}

/* What the host saw holds against the clock, from then on. */
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

static void old_marks_have_their_times_for_long(void **state)
{
    enum { HISTORY = 40000 };
    floor_of_queues f = open_floor((machine_options){ .mark_history = HISTORY });
    mark first = submit(f.q[0], "x", fill_op(cell(0), 1.0));
    mark_sync(first);
    double then = mark_time(first);
    for (int i = 0; i < HISTORY - 1; i++) submit(f.q[0], "nothing", fill_op(tensor_none(), 1.0));
    machine_sync(f.m);
    assert_true(mark_time(first) == then);
    close_floor(&f);
}

static void spans_and_seconds_are_kept(void **state)
{
    int64_t count, seen[2] = { 0 };
    floor_of_queues f = open_floor((machine_options){ .span_capacity = 3 });
    machine_origin(f.m, (origin){ .step = 4, .microbatch = -1, .chunk = -1, .layer = 2, .phase = PHASE_FORWARD });
    for (int i = 0; i < 5; i++) submit(f.q[1], "c", fill_op(tensor_none(), 1.0));
    machine_sync(f.m);
    mark before = submit(f.q[0], "a", fill_op(cell(0), 1.0));
    queue_wait(f.q[2], before);
    mark done = submit(f.q[2], "b", copy_op(cell(1), WRITE, cell(0)));
    machine_sync(f.m);
    const span *s = machine_spans(f.m, &count);
    const tally *t = machine_tally(f.m);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) {
        seen[0] += s[i].kind == OP_FILL && s[i].queue == 0 && strcmp(s[i].origin.name, "a") == 0;
        if (s[i].kind == OP_COPY) {
            seen[1] += s[i].queue == 2 && s[i].end == mark_time(done) && s[i].begin >= mark_time(before);
            assert_true(t->kind[OP_COPY].seconds == s[i].end - s[i].begin);
        }
        assert_true(s[i].begin <= s[i].end && s[i].origin.step == 4 && s[i].origin.layer == 2);
    }
    assert_true(seen[0] == 1 && seen[1] == 1);
    assert_int_equal(t->kind[OP_FILL].count, 6);
    assert_true(fabs(t->phase_seconds[PHASE_FORWARD] - t->kind[OP_FILL].seconds - t->kind[OP_COPY].seconds) < 1e-12);
    assert_true(t->run_seconds > 0.0 && t->dispatch_seconds > 0.0);
    close_floor(&f);
}

static uint32_t roll(uint32_t program, uint32_t draw, uint32_t sides)
{
    return mulhi(philox4x32((philox_block){ { draw, program, 0, 0 } }, 41, 43).word[0], sides);
}

/* A random program over CELLS cells: to gets or adds from. Order shows in the sums. With all waits that it needs, or
 * none. */
static void random_program(const floor_of_queues *f, uint32_t program, bool waits, float out[CELLS])
{
    enum { PROGRAM = 300 };
    mark last[QUEUES] = { 0 }, writer[CELLS] = { 0 }, reader[CELLS][QUEUES] = { 0 };
    for (int i = 0; i < CELLS; i++) set(f, i, (float)(i + 1));
    for (uint32_t i = 0; i < PROGRAM; i++) {
        uint32_t on = roll(program, 8 * i, QUEUES), to = roll(program, 8 * i + 1, CELLS);
        uint32_t from = (to + 1 + roll(program, 8 * i + 2, CELLS - 1)) % CELLS;
        if (waits) {
            queue_wait(f->q[on], writer[to]);
            queue_wait(f->q[on], writer[from]);
            for (int k = 0; k < QUEUES; k++) queue_wait(f->q[on], reader[to][k]);
        }
        last[on] = submit(f->q[on], "x",
                          copy_op(cell((int)to), roll(program, 8 * i + 3, 3) ? UPDATE : WRITE, cell((int)from)));
        writer[to] = reader[from][on] = last[on];
        if (roll(program, 8 * i + 4, 60) == 0) mark_sync(last[roll(program, 8 * i + 5, QUEUES)]);
    }
    machine_sync(f->m);
    machine_read(f->m, out, tensor_1d(device, F32, CELLS));
}

/* The same program one operation after the other, on the host. */
static void expected_program(uint32_t program, float out[CELLS])
{
    for (int i = 0; i < CELLS; i++) out[i] = (float)(i + 1);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t to = roll(program, 8 * i + 1, CELLS), from = (to + 1 + roll(program, 8 * i + 2, CELLS - 1)) % CELLS;
        out[to] = roll(program, 8 * i + 3, 3) ? out[to] + out[from] : out[from];
    }
}

static void ordered_programs_give_the_same_in_every_order(void **state)
{
    for (uint32_t program = 0; program < 20; program++) {
        float expected[CELLS], out[CELLS];
        expected_program(program, expected);
        for (int run = 0; run < 5; run++) {
            floor_of_queues f = open_floor((machine_options){ .prove_access = run == 0 });
            random_program(&f, program, true, out);
            assert_int_equal(machine_hazards(f.m)->count, 0);
            assert_memory_equal(out, expected, sizeof out);
            close_floor(&f);
        }
    }
}

/* A wait that is left out is seen: some order shows it. */
static void unordered_programs_show(void **state)
{
    int different = 0;
    float expected[CELLS], out[CELLS];
    expected_program(0, expected);
    for (int run = 0; run < 5; run++) {
        floor_of_queues f = open_floor((machine_options){ 0 });
        random_program(&f, 0, false, out);
        different += memcmp(out, expected, sizeof out) != 0;
        close_floor(&f);
    }
    assert_true(different > 0);
}

/* A write list that says more than is written: the rest is NaN; what is updated stays. */
static void writes_are_poisoned(void **state)
{
    double in[3] = { 5.0, 5.0, 5.0 }, out[3];
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    tensor whole = tensor_1d(device, F64, 3), part = tensor_1d((double *)(void *)device + 8, F64, 2);
    op o = { .kind = OP_SUM, .operands = 2, .operand = { { whole, WRITE }, { part, READ } } };
    machine_upload(f.m, part, in);
    for (int update = 0; update < 2; update++) {
        o.operand[0].access = update ? UPDATE : WRITE;
        machine_upload(f.m, whole, in);
        op_submit(f.q[0], &o);
        machine_sync(f.m);
        machine_read(f.m, out, whole);
        assert_true(out[0] == (update ? 15.0 : 10.0));
        for (int i = 1; i < 3; i++) assert_true(update ? out[i] == 5.0 : isnan(out[i]));
    }
    close_floor(&f);
}

/* More than the staging memory holds at once, at odd places. */
static void large_blocks_go_up_and_down(void **state)
{
    enum { BYTES = (20 << 20) + 12 };
    char *there = machine_memory_take(MACHINE_CUDA, BYTES + 64), *from = malloc(BYTES), *to = calloc(BYTES, 1);
    floor_of_queues f = open_floor((machine_options){ 0 });
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
    close_floor(&f);
    machine_memory_give_back(MACHINE_CUDA, there);
    free(from);
    free(to);
}

static void wait_for_the_future(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    submit(f.q[1], "b", fill_op(cell(0), 1.0));
    queue_wait(f.q[0], (mark){ f.q[1], 3 });
    submit(f.q[0], "never", fill_op(cell(1), 2.0));
}

static void sync_with_the_future(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    submit(f.q[1], "b", fill_op(cell(0), 1.0));
    mark_sync((mark){ f.q[1], 2 });
}

static void too_little_scratch(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    tensor token = tensor_2d(device, I32, 4, 1), gradient = tensor_3d(device + 16, F32, 4, 1, 2),
           table = tensor_2d(device + 32, F32, 8, 2);
    submit(f.q[0], "table", embedding_backward_op(token, gradient, table, WRITE, 0));
}

static void too_much_memory(void) { machine_memory_take(MACHINE_CUDA, (size_t)1 << 46); }

static void too_old_a_mark(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    mark first = submit(f.q[0], "x", fill_op(tensor_none(), 1.0));
    for (int i = 0; i < MARK_HISTORY; i++) submit(f.q[0], "x", fill_op(tensor_none(), 1.0));
    machine_sync(f.m);
    mark_time(first);
}

/* Without NVML nothing is known of clocks and power. */
static void no_nvml(void)
{
    setenv("EMULATOR_NVML", "0", 1);
    machine_device d = machine_device_of(MACHINE_CUDA);
    if (d.clock_hertz != 0.0 || d.power_watts != 0.0 || d.clocks_known || d.throttled || d.throttle_reasons[0]) return;
    printf("driver %s\n", d.driver);
    exit(1);
}

/* The machine is refused by a clause, and ends the run of who takes memory all the same. */
static void no_device(void)
{
    char why[200] = "";
    setenv("EMULATOR_DEVICES", "0", 1);
    if (machine_usable(MACHINE_CUDA, why, sizeof why) || strcmp(why, "no GPU is visible to this process") != 0) return;
    machine_memory_take(MACHINE_CUDA, 64);
}

/* What ends the process is run in another one: this program with the name as its argument. */
static const struct {
    const char *name;
    void (*run)(void);
    const char *words;
} fatal[] = {
    { "wait_for_the_future", wait_for_the_future,
      "fill never (setup) waits for operation 3 of queue 1, which can never complete" },
    { "sync_with_the_future", sync_with_the_future, "a mark is waited for that was never submitted" },
    { "too_little_scratch", too_little_scratch, "embedding_backward table (setup) needs" },
    { "too_much_memory", too_much_memory, "65536.00 GiB asked for the case's arena on" },
    { "no_nvml", no_nvml, "driver CUDA 13.0" },
    { "no_device", no_device, "the CUDA machine cannot run: no GPU is visible to this process" },
    { "too_old_a_mark", too_old_a_mark, "operation 1 of queue 0 completed too long ago to say when" },
};
enum { FATAL = sizeof fatal / sizeof *fatal };
static const char *own_path;

static void failures_are_named(void **state)
{
    for (int i = 0; i < FATAL; i++) {
        char command[512], said[1024];
        snprintf(command, sizeof command, "%s %s 2>&1", own_path, fatal[i].name);
        FILE *other = popen(command, "r");
        assert_non_null(other);
        said[fread(said, 1, sizeof said - 1, other)] = 0;
        int status = pclose(other);
        if (!strstr(said, fatal[i].words)) fail_msg("%s said: %s", fatal[i].name, said);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    }
}

int main(int count, char **arguments)
{
    for (int i = 0; i < FATAL && count > 1; i++)
        if (strcmp(fatal[i].name, arguments[1]) == 0) fatal[i].run();
    if (count > 1) return 0;
    own_path = arguments[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mark_sync_waits_for_the_mark),
        cmocka_unit_test(nothing_runs_ahead_of_being_asked),
        cmocka_unit_test(queues_wait_for_each_other),
        cmocka_unit_test(a_full_ring_waits_for_the_device),
        cmocka_unit_test(times_are_those_of_the_clock),
        cmocka_unit_test(the_clock_counts_from_a_later_event),
        cmocka_unit_test(the_clock_is_held_to_the_hosts),
        cmocka_unit_test(old_marks_have_their_times_for_long),
        cmocka_unit_test(spans_and_seconds_are_kept),
        cmocka_unit_test(ordered_programs_give_the_same_in_every_order),
        cmocka_unit_test(unordered_programs_show),
        cmocka_unit_test(writes_are_poisoned),
        cmocka_unit_test(large_blocks_go_up_and_down),
        cmocka_unit_test(failures_are_named),
    };
    return cmocka_run_group_tests_name("cuda_executor", tests, NULL, NULL);
}
