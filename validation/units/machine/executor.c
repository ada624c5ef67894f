/* The executors of the host and, with XGSW_TEST_MACHINE=cuda, of GPUs: marks, waits, order, rings, times, deadlocks,
 * scratch, proof of access lists. Without MPI. emulator/tests/cuda_executor.c tests what only GPUs do. */
#include "base/clock.h"
#include "fabric_ranks.h"
#include "fatal.h"
#include "units/test_length.h"

enum { QUEUES = 4, CELLS = 12, FLOATS = 64, SEEDS = 50, SEEDS_BRIEFLY = 15, SEEDS_ON_GPUS = 5 };

static float *cells; /* [FLOATS] in the machine's memory; zero after open_floor */

typedef struct {
    machine *m;
    queue *q[QUEUES];
} floor_of_queues;

static bool on_host(void) { return tested_machine() == MACHINE_HOST; }

static floor_of_queues open_floor(machine_options options)
{
    options.kind = tested_machine();
    floor_of_queues f = { .m = machine_open(&options) };
    if (!cells) cells = machine_memory_take(options.kind, FLOATS * sizeof *cells);
    machine_memory_clear(options.kind, cells, 0, FLOATS * sizeof *cells);
    for (int i = 0; i < QUEUES; i++) f.q[i] = machine_queue(f.m, "queue");
    return f;
}

static void close_floor(floor_of_queues *f)
{
    machine_sync(f->m);
    machine_close(f->m);
}

static tensor cell(int i) { return tensor_1d(cells + i, F32, 1); }

/* Returns the present value, even if an operation is about to write it. */
static float value(const floor_of_queues *f, int i)
{
    float x;
    machine_read(f->m, &x, cell(i));
    return x;
}

static void set(const floor_of_queues *f, int i, float x) { machine_upload(f->m, cell(i), &x); }

/* The host runs only the operations that a mark needs. */
static void mark_sync_waits_for_the_mark(void **state)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    for (int round = 1; round < 50; round++) {
        mark first = submit(f.q[0], "a", fill_op(cell(0), round));
        submit(f.q[0], "b", fill_op(cell(1), round));
        mark other = submit(f.q[1], "c", fill_op(cell(2), round));
        mark_sync(first);
        assert_true(value(&f, 0) == (float)round);
        if (on_host()) assert_true(value(&f, 1) < (float)round && value(&f, 2) < (float)round);
        mark_sync(other);
        assert_true(value(&f, 2) == (float)round);
        machine_sync(f.m);
        assert_true(value(&f, 1) == (float)round);
        mark_sync(first);
    }
    close_floor(&f);
}

static void marks_of_nothing_are_done(void **state)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    mark none = queue_mark(f.q[0]);
    assert_null(none.queue);
    mark_sync(none);
    queue_wait(f.q[1], none);
    assert_true(mark_time(none) == 0.0);
    close_floor(&f);
}

static void queues_wait_for_each_other(void **state)
{
    floor_of_queues f = open_floor((machine_options){ .hostile = true, .order_seed = 5 });
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

/* A queue may get more waits than a ring holds before its first operation. The latest mark counts, even if an earlier
 * mark is waited for after it. */
static void an_idle_queue_may_wait_for_much(void **state)
{
    enum { OPERATIONS = 10000 };
    floor_of_queues f = open_floor((machine_options){ .hostile = true, .order_seed = 3 });
    mark first = { NULL, 0 };
    set(&f, 2, 1.0f);
    for (int i = 0; i < OPERATIONS; i++) {
        queue_wait(f.q[1], submit(f.q[0], "x", copy_op(cell(0), UPDATE, cell(2))));
        if (i == 0) first = queue_mark(f.q[0]);
    }
    queue_wait(f.q[1], first);
    mark_sync(submit(f.q[1], "y", copy_op(cell(1), WRITE, cell(0))));
    assert_true(value(&f, 1) == (float)OPERATIONS);
    assert_int_equal(machine_hazards(f.m)->count, 0);
    assert_int_equal(machine_waits(f.m), 1);
    close_floor(&f);
}

/* A queue waits long before its first operation: the predecessors of the mark must not be forgotten. */
static void an_early_wait_keeps_what_it_followed(void **state)
{
    enum { OPERATIONS = 20000 };
    floor_of_queues f = open_floor((machine_options){ 0 });
    queue_wait(f.q[0], submit(f.q[1], "b", fill_op(cell(1), 2.0)));
    queue_wait(f.q[2], submit(f.q[0], "a", fill_op(cell(0), 1.0)));
    for (int i = 0; i < OPERATIONS; i++) submit(f.q[0], "a", fill_op(cell(0), 3.0));
    mark_sync(submit(f.q[2], "c", copy_op(cell(2), WRITE, cell(1))));
    assert_true(value(&f, 2) == 2.0f);
    assert_int_equal(machine_hazards(f.m)->count, 0);
    close_floor(&f);
}

/* Submits far more operations than a ring holds, also in the waiting queue. */
static void a_full_ring_waits_for_what_came_before(void **state)
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

/* Times lie between the moments before submission and after waiting. They are in order within a queue, and never before
 * the times of operations that were waited for. */
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

/* The last spans are kept in any order; the tally counts all. */
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

enum { PROGRAM = 300 };

/* A random program over CELLS cells that gets or adds other cells, so results depend on the order. Submits all needed
 * waits, or none. */
static void random_program(const floor_of_queues *f, uint32_t program, bool waits, float out[CELLS])
{
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
    machine_read(f->m, out, tensor_1d(cells, F32, CELLS));
}

/* Runs the same program one operation after the other. */
static void expected_program(uint32_t program, float out[CELLS])
{
    for (int i = 0; i < CELLS; i++) out[i] = (float)(i + 1);
    for (uint32_t i = 0; i < PROGRAM; i++) {
        uint32_t to = roll(program, 8 * i + 1, CELLS), from = (to + 1 + roll(program, 8 * i + 2, CELLS - 1)) % CELLS;
        out[to] = roll(program, 8 * i + 3, 3) ? out[to] + out[from] : out[from];
    }
}

static uint32_t orders(void) { return !on_host() ? SEEDS_ON_GPUS : test_is_full() ? SEEDS : SEEDS_BRIEFLY; }

static void ordered_programs_give_the_same_in_every_order(void **state)
{
    for (uint32_t program = 0; program < 20; program++) {
        float expected[CELLS], out[CELLS];
        expected_program(program, expected);
        for (uint32_t seed = 0; seed < orders(); seed++) {
            floor_of_queues f =
                open_floor((machine_options){ .hostile = true, .order_seed = seed, .prove_access = seed == 0 });
            random_program(&f, program, true, out);
            assert_int_equal(machine_hazards(f.m)->count, 0);
            assert_memory_equal(out, expected, sizeof out);
            close_floor(&f);
        }
    }
}

/* Missing waits change results: on the host in every hostile order, on GPUs in some orders. */
static void unordered_programs_show(void **state)
{
    int different = 0;
    float expected[CELLS], out[CELLS];
    expected_program(0, expected);
    for (uint32_t seed = 0; seed < orders(); seed++) {
        floor_of_queues f = open_floor((machine_options){ .hostile = true, .order_seed = seed });
        random_program(&f, 0, false, out);
        different += memcmp(out, expected, sizeof out) != 0;
        assert_true(machine_hazards(f.m)->count > 0);
        close_floor(&f);
    }
    assert_in_range(different, on_host() ? orders() : 1, orders());
}

/* The same seed gives the same order; on another rank it gives another order. */
static void hostile_order_is_a_function_of_seed_and_rank(void **state)
{
    float out[3][CELLS];
    for (int i = 0; i < 3 && on_host(); i++) {
        floor_of_queues f = open_floor((machine_options){ .hostile = true, .order_seed = 9, .world_rank = i == 2 });
        random_program(&f, 1, false, out[i]);
        close_floor(&f);
    }
    if (!on_host()) return;
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    assert_memory_not_equal(out[0], out[2], sizeof out[0]);
}

static void wait_for_the_future(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    submit(f.q[1], "b", fill_op(cell(0), 1.0));
    queue_wait(f.q[0], (mark){ f.q[1], 3 });
    submit(f.q[0], "never", fill_op(cell(1), 2.0));
    machine_sync(f.m);
}

static void sync_with_the_future(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    submit(f.q[1], "b", fill_op(cell(0), 1.0));
    mark_sync((mark){ f.q[1], 2 });
}

static void too_little_scratch(void)
{
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    tensor token = tensor_2d(cells, I32, 4, 1), gradient = tensor_3d(cells + 16, F32, 4, 1, 2),
           table = tensor_2d(cells + 32, F32, 8, 2);
    submit(f.q[0], "table", embedding_backward_op(token, gradient, table, WRITE, 0));
    machine_sync(f.m);
}

static void too_old_a_mark(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    mark first = submit(f.q[0], "x", fill_op(tensor_none(), 1.0));
    for (int i = 0; i < MARK_HISTORY; i++) submit(f.q[0], "x", fill_op(tensor_none(), 1.0));
    machine_sync(f.m);
    mark_time(first);
}

static void wait_in_a_circle(void)
{
    floor_of_queues f = open_floor((machine_options){ .hostile = true });
    queue_wait(f.q[0], (mark){ f.q[1], 1 });
    submit(f.q[0], "a", fill_op(cell(0), 2.0));
    queue_wait(f.q[1], queue_mark(f.q[0]));
    submit(f.q[1], "b", fill_op(cell(0), 1.0));
    machine_sync(f.m);
}

/* An operation with a wrong access list: the copy declares that it reads its destination. */
static op lying_copy(tensor to, tensor from)
{
    return (op){ .kind = OP_COPY,
                 .operands = 2,
                 .operand = { { to, READ }, { from, READ } },
                 .origin = { .step = -1, .microbatch = -1, .chunk = -1, .layer = -1, .name = "liar" } };
}

static void write_what_is_read(void)
{
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    op o = lying_copy(tensor_1d(cells, F32, 4), tensor_1d(cells + 8, F32, 4));
    for (int i = 0; i < 12; i++) cells[i] = (float)i;
    op_submit(f.q[0], &o);
    machine_sync(f.m);
}

/* Changes only one element of a view with gaps. */
static void write_one_element_of_a_view(void)
{
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    tensor view = tensor_slice(tensor_2d(cells, F32, 8, 8), 1, 5, 2);
    op o = lying_copy(cell(7 * 8 + 6), cell(8));
    o.operand[2] = (operand){ view, READ };
    o.operand[0].access = UPDATE;
    o.operands = 3;
    cells[8] = 3.0f;
    op_submit(f.q[0], &o);
    machine_sync(f.m);
}

/* Only the host detects the last HOST_ONLY failures. */
static const fatal failures[] = {
    { "wait_for_the_future", wait_for_the_future,
      "fill never (setup) waits for operation 3 of queue 1, which can never complete" },
    { "sync_with_the_future", sync_with_the_future, "a queue waits for an event that was never submitted" },
    { "too_little_scratch", too_little_scratch, "embedding_backward table (setup) needs" },
    { "too_old_a_mark", too_old_a_mark, "operation 1 of queue 0 completed too long ago to say when" },
    { "wait_in_a_circle", wait_in_a_circle,
      "fill a (setup) waits for operation 1 of queue 1, which can never complete" },
    { "write_what_is_read", write_what_is_read, "copy liar (setup) changed its operand 0, which it only reads" },
    { "write_one_element_of_a_view", write_one_element_of_a_view,
      "copy liar (setup) changed its operand 2, which it only reads" },
};
enum { FAILURES = sizeof failures / sizeof *failures, HOST_ONLY = 3 };
static const char *own_path;

static void failures_are_named(void **state)
{
    for (int i = 0; i < FAILURES - (on_host() ? 0 : HOST_ONLY); i++) assert_fatal(own_path, &failures[i]);
}

/* The view is whole[1] and every step-th number after it. An operation writes a sum into its first number. The other
 * numbers that the access list declares written become NaN; numbers in gaps and updated numbers stay. */
static void view_is_poisoned(tensor view, tensor whole, int step)
{
    double out[8], in[2] = { 1.0, 2.0 };
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    tensor terms = tensor_1d((double *)whole.data + 8, F64, 2);
    op o = { .kind = OP_SUM, .operands = 2, .operand = { { view, WRITE }, { terms, READ } } };
    machine_upload(f.m, terms, in);
    for (int update = 0; update < 2; update++) {
        for (int i = 0; i < 8; i++) out[i] = 5.0;
        machine_upload(f.m, whole, out);
        o.operand[0].access = update ? UPDATE : WRITE;
        op_submit(f.q[0], &o);
        machine_sync(f.m);
        machine_read(f.m, out, whole);
        assert_true(out[1] == (update ? 8.0 : 3.0));
        for (int i = 0; i < 8; i++) {
            bool poisoned = !update && i > 1 && (i - 1) % step == 0;
            assert_true(i == 1 || (poisoned ? isnan(out[i]) : out[i] == 5.0));
        }
    }
    close_floor(&f);
}

static void writes_are_poisoned(void **state)
{
    tensor column = tensor_slice(tensor_2d(cells, F64, 4, 2), 1, 1, 1), whole = tensor_1d(cells, F64, 8);
    view_is_poisoned(tensor_slice(whole, 0, 1, 7), whole, 1);
    if (!on_host()) return; /* on GPUs only views without gaps are poisoned */
    view_is_poisoned(column, whole, 2);
    view_is_poisoned(tensor_transposed(column), whole, 2);
    view_is_poisoned(tensor_slice(tensor_4d(cells, F64, 2, 1, 2, 2), 3, 1, 1), whole, 2);
}

/* The part of the vocabulary has no token, so the sorted order in scratch is never written. */
static void scratch_is_poisoned(void **state)
{
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    int32_t token[4] = { 9, 9, 9, 9 }, scratch[64] = { 0 }, poisoned = 0;
    float d_out[8] = { 0 }, gradient[16];
    if (on_host()) {
        queue_set_scratch(f.q[0], scratch, sizeof scratch);
        submit(f.q[0], "table",
               embedding_backward_op(tensor_2d(token, I32, 4, 1), tensor_3d(d_out, F32, 4, 1, 2),
                                     tensor_2d(gradient, F32, 8, 2), WRITE, 0));
        machine_sync(f.m);
        for (int i = 0; i < 64; i++) poisoned += scratch[i] == -1;
        assert_int_equal(poisoned, 4);
    }
    close_floor(&f);
}

static void uploads_come_after_what_was_submitted(void **state)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    submit(f.q[2], "x", fill_op(cell(0), 9.0));
    set(&f, 0, 1.0f);
    assert_true(value(&f, 0) == 1.0f);
    assert_int_equal(machine_hazards(f.m)->count, 0);
    close_floor(&f);
}

int main(int count, char **arguments)
{
    if (count > 1) return fatal_run(failures, FAILURES, arguments[1]), 0;
    own_path = arguments[0];
    TESTS(tests, mark_sync_waits_for_the_mark, marks_of_nothing_are_done, queues_wait_for_each_other,
          an_idle_queue_may_wait_for_much, an_early_wait_keeps_what_it_followed, a_full_ring_waits_for_what_came_before,
          times_are_those_of_the_clock, old_marks_have_their_times_for_long, spans_and_seconds_are_kept,
          ordered_programs_give_the_same_in_every_order, unordered_programs_show,
          hostile_order_is_a_function_of_seed_and_rank, failures_are_named, writes_are_poisoned, scratch_is_poisoned,
          uploads_come_after_what_was_submitted);
    return cmocka_run_group_tests_name("executor", tests, NULL, NULL);
}
