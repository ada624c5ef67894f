/* The host executor: marks, waits, order, rings, deadlocks, scratch, and the proof of access lists. Without MPI. */
#include "machine/submit.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { QUEUES = 4, SEEDS = 50 };

typedef struct {
    machine *m;
    queue *q[QUEUES];
} floor_of_queues;

static floor_of_queues open_floor(machine_options options)
{
    floor_of_queues f = { .m = machine_open(&options) };
    for (int i = 0; i < QUEUES; i++) f.q[i] = machine_queue(f.m, "queue");
    return f;
}

static tensor floats(float *x, int64_t n) { return tensor_1d(x, F32, n); }

static void mark_sync_runs_up_to_the_mark(void **state)
{
    float x[3] = { 0 };
    floor_of_queues f = open_floor((machine_options){ 0 });
    mark first = submit(f.q[0], "a", fill_op(floats(&x[0], 1), 1.0));
    submit(f.q[0], "b", fill_op(floats(&x[1], 1), 2.0));
    mark other = submit(f.q[1], "c", fill_op(floats(&x[2], 1), 3.0));
    assert_true(x[0] == 0.0f);
    mark_sync(first);
    assert_true(x[0] == 1.0f && x[1] == 0.0f && x[2] == 0.0f);
    mark_sync(other);
    assert_true(x[2] == 3.0f);
    machine_sync(f.m);
    assert_true(x[1] == 2.0f);
    mark_sync(first);
    machine_close(f.m);
}

static void marks_of_nothing_are_done(void **state)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    mark none = queue_mark(f.q[0]);
    assert_null(none.queue);
    mark_sync(none);
    queue_wait(f.q[1], none);
    machine_sync(f.m);
    assert_true(mark_time(none) == 0.0);
    machine_close(f.m);
}

static void times_never_go_back_in_a_queue(void **state)
{
    enum { OPERATIONS = 40000 };
    static mark marks[2][OPERATIONS];
    float x[2];
    floor_of_queues f = open_floor((machine_options){ .hostile = true });
    for (int i = 0; i < OPERATIONS; i++)
        for (int k = 0; k < 2; k++) marks[k][i] = submit(f.q[k], "x", fill_op(floats(&x[k], 1), i));
    machine_sync(f.m);
    for (int k = 0; k < 2; k++) {
        double before = mark_time(marks[k][OPERATIONS - MARK_HISTORY]);
        for (int i = OPERATIONS - MARK_HISTORY; i < OPERATIONS; i++) {
            assert_true(mark_time(marks[k][i]) >= before);
            before = mark_time(marks[k][i]);
        }
        assert_true(mark_time(marks[k][OPERATIONS - 1]) > mark_time(marks[k][OPERATIONS - MARK_HISTORY]));
    }
    machine_close(f.m);
}

static void queues_wait_for_each_other(void **state)
{
    float x[QUEUES] = { 0 };
    floor_of_queues f = open_floor((machine_options){ .hostile = true, .order_seed = 5 });
    for (int round = 1; round <= 100; round++) {
        submit(f.q[0], "x", fill_op(floats(&x[0], 1), round));
        for (int i = 1; i < QUEUES; i++) {
            queue_wait(f.q[i], queue_mark(f.q[i - 1]));
            submit(f.q[i], "x", copy_op(floats(&x[i], 1), WRITE, floats(&x[i - 1], 1)));
        }
        mark_sync(queue_mark(f.q[QUEUES - 1]));
        assert_true(x[QUEUES - 1] == (float)round);
        for (int i = 0; i < QUEUES - 1; i++) queue_wait(f.q[i], queue_mark(f.q[QUEUES - 1]));
    }
    assert_int_equal(machine_hazards(f.m)->count, 0);
    machine_close(f.m);
}

/* A queue may be told to wait more often than a ring is long before it has anything to run; the latest mark counts,
 * even if an earlier one comes after it. */
static void an_idle_queue_may_wait_for_much(void **state)
{
    enum { OPERATIONS = 10000 };
    float x = 0.0f, y = 0.0f;
    const float one = 1.0f;
    floor_of_queues f = open_floor((machine_options){ .hostile = true, .order_seed = 3 });
    mark first = { NULL, 0 };
    for (int i = 0; i < OPERATIONS; i++) {
        queue_wait(f.q[1], submit(f.q[0], "x", copy_op(floats(&x, 1), UPDATE, floats((float *)&one, 1))));
        if (i == 0) first = queue_mark(f.q[0]);
    }
    queue_wait(f.q[1], first);
    mark_sync(submit(f.q[1], "y", copy_op(floats(&y, 1), WRITE, floats(&x, 1))));
    assert_true(y == (float)OPERATIONS);
    assert_int_equal(machine_hazards(f.m)->count, 0);
    assert_int_equal(machine_waits(f.m), 1);
    machine_close(f.m);
}

/* A queue is told to wait long before it has anything to run: what the mark followed is not forgotten meanwhile. */
static void an_early_wait_keeps_what_it_followed(void **state)
{
    enum { OPERATIONS = 20000 };
    float a, b, c;
    floor_of_queues f = open_floor((machine_options){ 0 });
    queue_wait(f.q[0], submit(f.q[1], "b", fill_op(floats(&b, 1), 2.0)));
    queue_wait(f.q[2], submit(f.q[0], "a", fill_op(floats(&a, 1), 1.0)));
    for (int i = 0; i < OPERATIONS; i++) submit(f.q[0], "a", fill_op(floats(&a, 1), 3.0));
    mark_sync(submit(f.q[2], "c", copy_op(floats(&c, 1), WRITE, floats(&b, 1))));
    assert_true(c == 2.0f);
    assert_int_equal(machine_hazards(f.m)->count, 0);
    machine_close(f.m);
}

/* Far more operations than a ring holds, the waiting queue first. */
static void a_full_ring_runs_what_came_before(void **state)
{
    enum { OPERATIONS = 10000 };
    float x = 0.0f, y = 0.0f;
    const float one = 1.0f;
    floor_of_queues f = open_floor((machine_options){ 0 });
    tensor add = floats((float *)&one, 1);
    mark last = { NULL, 0 };
    for (int i = 0; i < OPERATIONS; i++) {
        last = submit(f.q[0], "x", copy_op(floats(&x, 1), UPDATE, add));
        if (i % 100 == 0) queue_wait(f.q[1], last);
        submit(f.q[1], "y", copy_op(floats(&y, 1), UPDATE, add));
    }
    assert_true(x > 0.0f);
    queue_wait(f.q[2], last);
    submit(f.q[2], "y", copy_op(floats(&y, 1), UPDATE, floats(&x, 1)));
    mark_sync(queue_mark(f.q[2]));
    assert_true(x == (float)OPERATIONS);
    machine_sync(f.m);
    assert_true(y == 2.0f * OPERATIONS);
    machine_close(f.m);
}

/* The last spans are kept, in no order; the tally counts all. */
static void spans_are_kept(void **state)
{
    float x[2];
    int64_t count, seen[2] = { 0 };
    floor_of_queues f = open_floor((machine_options){ .span_capacity = 3 });
    machine_origin(f.m, (origin){ .step = 4, .microbatch = -1, .chunk = -1, .layer = 2, .phase = PHASE_FORWARD });
    for (int i = 0; i < 5; i++) submit(f.q[1], "c", fill_op(tensor_none(), 1.0));
    machine_sync(f.m);
    submit(f.q[0], "a", fill_op(floats(&x[0], 1), 1.0));
    queue_wait(f.q[2], queue_mark(f.q[0]));
    mark done = submit(f.q[2], "b", copy_op(floats(&x[1], 1), WRITE, floats(&x[0], 1)));
    machine_sync(f.m);
    const span *s = machine_spans(f.m, &count);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++) {
        seen[0] += s[i].kind == OP_FILL && s[i].queue == 0 && strcmp(s[i].origin.name, "a") == 0;
        seen[1] += s[i].kind == OP_COPY && s[i].queue == 2 && s[i].end == mark_time(done);
        assert_true(s[i].begin <= s[i].end && s[i].origin.step == 4 && s[i].origin.layer == 2);
    }
    assert_true(seen[0] == 1 && seen[1] == 1);
    assert_int_equal(machine_tally(f.m)->kind[OP_FILL].count, 6);
    assert_true(machine_tally(f.m)->kind[OP_COPY].seconds > 0.0 &&
                machine_tally(f.m)->phase_seconds[PHASE_FORWARD] > 0.0);
    machine_close(f.m);
}

/* A random program over CELLS cells; with waits for all that it follows, or with none. */
enum { CELLS = 12, PROGRAM = 300 };

static uint32_t roll(uint32_t program, uint32_t draw, uint32_t sides)
{
    return mulhi(philox4x32((philox_block){ { draw, program, 0, 0 } }, 41, 43).word[0], sides);
}

/* Cell `to` gets or adds cell `from`, times nothing: order shows in the sums. */
static void random_program(const floor_of_queues *f, uint32_t program, bool waits, float cell[CELLS])
{
    mark last[QUEUES] = { 0 }, writer[CELLS] = { 0 }, reader[CELLS][QUEUES] = { 0 };
    for (int i = 0; i < CELLS; i++) cell[i] = (float)(i + 1);
    for (uint32_t i = 0; i < PROGRAM; i++) {
        uint32_t on = roll(program, 8 * i, QUEUES), to = roll(program, 8 * i + 1, CELLS),
                 from = (to + 1 + roll(program, 8 * i + 2, CELLS - 1)) % CELLS;
        if (waits) {
            queue_wait(f->q[on], writer[to]);
            queue_wait(f->q[on], writer[from]);
            for (int k = 0; k < QUEUES; k++) queue_wait(f->q[on], reader[to][k]);
        }
        access_mode how = roll(program, 8 * i + 3, 3) ? UPDATE : WRITE;
        last[on] = submit(f->q[on], "x", copy_op(floats(&cell[to], 1), how, floats(&cell[from], 1)));
        writer[to] = reader[from][on] = last[on];
        if (roll(program, 8 * i + 4, 60) == 0) mark_sync(last[roll(program, 8 * i + 5, QUEUES)]);
    }
    machine_sync(f->m);
}

static void ordered_programs_give_the_same_in_every_order(void **state)
{
    for (uint32_t program = 0; program < 20; program++) {
        float expected[CELLS], cell[CELLS];
        floor_of_queues plain = open_floor((machine_options){ 0 });
        random_program(&plain, program, true, expected);
        machine_close(plain.m);
        for (uint32_t seed = 0; seed < SEEDS; seed++) {
            floor_of_queues f =
                open_floor((machine_options){ .hostile = true, .order_seed = seed, .prove_access = seed == 0 });
            random_program(&f, program, true, cell);
            assert_int_equal(machine_hazards(f.m)->count, 0);
            assert_memory_equal(cell, expected, sizeof cell);
            machine_close(f.m);
        }
    }
}

static void unordered_programs_show_in_hostile_order(void **state)
{
    int different = 0;
    float expected[CELLS], cell[CELLS];
    for (uint32_t seed = 0; seed < SEEDS; seed++) {
        floor_of_queues plain = open_floor((machine_options){ 0 }),
                        f = open_floor((machine_options){ .hostile = true, .order_seed = seed });
        random_program(&plain, 0, false, expected);
        random_program(&f, 0, false, cell);
        different += memcmp(cell, expected, sizeof cell) != 0;
        assert_true(machine_hazards(plain.m)->count > 0 && machine_hazards(f.m)->count > 0);
        machine_close(plain.m);
        machine_close(f.m);
    }
    assert_int_equal(different, SEEDS);
}

/* The same seed gives the same order, another rank another one. */
static void hostile_order_is_a_function_of_seed_and_rank(void **state)
{
    float cell[3][CELLS];
    for (int i = 0; i < 3; i++) {
        floor_of_queues f = open_floor((machine_options){ .hostile = true, .order_seed = 9, .world_rank = i == 2 });
        random_program(&f, 1, false, cell[i]);
        machine_close(f.m);
    }
    assert_memory_equal(cell[0], cell[1], sizeof cell[0]);
    assert_memory_not_equal(cell[0], cell[2], sizeof cell[0]);
}

static float data[64];

static void wait_for_the_future(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    submit(f.q[1], "b", fill_op(floats(data, 4), 1.0));
    queue_wait(f.q[0], (mark){ f.q[1], 3 });
    submit(f.q[0], "never", fill_op(floats(data, 4), 2.0));
    machine_sync(f.m);
}

static void wait_in_a_circle(void)
{
    floor_of_queues f = open_floor((machine_options){ .hostile = true });
    queue_wait(f.q[0], (mark){ f.q[1], 1 });
    submit(f.q[0], "a", fill_op(floats(data, 4), 2.0));
    queue_wait(f.q[1], queue_mark(f.q[0]));
    submit(f.q[1], "b", fill_op(floats(data, 4), 1.0));
    machine_sync(f.m);
}

static void sync_with_the_future(void)
{
    floor_of_queues f = open_floor((machine_options){ 0 });
    submit(f.q[1], "b", fill_op(floats(data, 4), 1.0));
    mark_sync((mark){ f.q[1], 2 });
}

/* An operation with a wrong access list: a copy that says it reads what it writes. */
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
    op o = lying_copy(floats(data, 4), floats(data + 8, 4));
    for (int i = 0; i < 12; i++) data[i] = (float)i;
    op_submit(f.q[0], &o);
    machine_sync(f.m);
}

/* Only one element of a view with gaps changes. */
static void write_one_element_of_a_view(void)
{
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    tensor view = tensor_slice(tensor_2d(data, F32, 8, 8), 1, 5, 2);
    op o = lying_copy(floats(&data[7 * 8 + 6], 1), floats(&data[8], 1));
    o.operand[2] = (operand){ view, READ };
    o.operand[0].access = UPDATE;
    o.operands = 3;
    data[8] = 3.0f;
    op_submit(f.q[0], &o);
    machine_sync(f.m);
}

static void too_little_scratch(void)
{
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    static int32_t token[4];
    submit(f.q[0], "table",
           embedding_backward_op(tensor_2d(token, I32, 4, 1), tensor_3d(data, F32, 4, 1, 2),
                                 tensor_2d(data + 16, F32, 8, 2), WRITE, 0));
    machine_sync(f.m);
}

/* What ends the process is run in another one: this program with the name as its argument. */
static const struct {
    const char *name;
    void (*run)(void);
} fatal[] = {
    { "wait_for_the_future", wait_for_the_future },
    { "wait_in_a_circle", wait_in_a_circle },
    { "sync_with_the_future", sync_with_the_future },
    { "write_what_is_read", write_what_is_read },
    { "write_one_element_of_a_view", write_one_element_of_a_view },
    { "too_little_scratch", too_little_scratch },
};
static const char *own_path;

static int run_fatal(const char *name)
{
    for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
        if (strcmp(fatal[i].name, name) == 0) fatal[i].run();
    return 0;
}

/* It ends with status 1 and says these words. */
static void assert_fails(const char *name, const char *words)
{
    char command[512], said[1024];
    snprintf(command, sizeof command, "%s %s 2>&1", own_path, name);
    FILE *other = popen(command, "r");
    assert_non_null(other);
    said[fread(said, 1, sizeof said - 1, other)] = 0;
    int status = pclose(other);
    if (!strstr(said, words)) fail_msg("said: %s", said);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void deadlocks_are_named(void **state)
{
    assert_fails("wait_for_the_future",
                 "fill never (setup) waits for operation 3 of queue 1, which can never complete");
    assert_fails("wait_in_a_circle", "fill a (setup) waits for operation 1 of queue 1, which can never complete");
    assert_fails("sync_with_the_future", "a mark is waited for that was never submitted");
}

static void reads_are_proved(void **state)
{
    assert_fails("write_what_is_read", "copy liar (setup) changed its operand 0, which it only reads");
    assert_fails("write_one_element_of_a_view", "copy liar (setup) changed its operand 2, which it only reads");
    assert_fails("too_little_scratch", "embedding_backward table (setup) needs");
    floor_of_queues f = open_floor((machine_options){ 0 });
    op o = lying_copy(floats(data, 4), floats(data + 8, 4));
    op_submit(f.q[0], &o);
    machine_sync(f.m);
    machine_close(f.m);
}

/* A write list that says more than is written: the rest is NaN, the bytes between stay. */
static void view_is_poisoned(tensor view, double out[8])
{
    double in[2] = { 1.0, 2.0 };
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    op o = { .kind = OP_SUM, .operands = 2, .operand = { { view, WRITE }, { tensor_1d(in, F64, 2), READ } } };
    for (int i = 0; i < 8; i++) out[i] = 5.0;
    op_submit(f.q[0], &o);
    machine_sync(f.m);
    assert_true(out[1] == 3.0);
    for (int i = 0; i < 8; i++) assert_true(i == 1 || (i % 2 ? isnan(out[i]) : out[i] == 5.0));
    o.operand[0] = (operand){ view, UPDATE };
    out[3] = 7.0;
    op_submit(f.q[0], &o);
    machine_sync(f.m);
    assert_true(out[1] == 6.0 && out[3] == 7.0);
    machine_close(f.m);
}

static void writes_are_poisoned(void **state)
{
    double out[8];
    tensor column = tensor_slice(tensor_2d(out, F64, 4, 2), 1, 1, 1);
    view_is_poisoned(column, out);
    view_is_poisoned(tensor_transposed(column), out);
    view_is_poisoned(tensor_slice(tensor_4d(out, F64, 2, 1, 2, 2), 3, 1, 1), out);
}

/* No token is of the part of the vocabulary: their order is not written. */
static void scratch_is_poisoned(void **state)
{
    floor_of_queues f = open_floor((machine_options){ .prove_access = true });
    int32_t token[4] = { 9, 9, 9, 9 }, scratch[64] = { 0 };
    float d_out[8] = { 0 }, gradient[16];
    queue_set_scratch(f.q[0], scratch, sizeof scratch);
    submit(f.q[0], "table",
           embedding_backward_op(tensor_2d(token, I32, 4, 1), tensor_3d(d_out, F32, 4, 1, 2),
                                 tensor_2d(gradient, F32, 8, 2), WRITE, 0));
    machine_sync(f.m);
    int poisoned = 0;
    for (int i = 0; i < 64; i++) poisoned += scratch[i] == -1;
    assert_int_equal(poisoned, 4);
    machine_close(f.m);
}

static void upload_and_download_synchronize(void **state)
{
    float x[4] = { 0 }, y[4], z[4] = { 1, 2, 3, 4 };
    floor_of_queues f = open_floor((machine_options){ 0 });
    submit(f.q[1], "x", fill_op(floats(x, 4), 8.0));
    machine_sync(f.m);
    machine_read(f.m, y, floats(x, 4));
    assert_true(y[0] == 8.0f && y[3] == 8.0f);
    submit(f.q[2], "x", fill_op(floats(x, 4), 9.0));
    machine_upload(f.m, floats(x, 4), z);
    assert_memory_equal(x, z, sizeof x);
    assert_int_equal(machine_hazards(f.m)->count, 0);
    machine_close(f.m);
}

int main(int count, char **arguments)
{
    if (count > 1) return run_fatal(arguments[1]);
    own_path = arguments[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mark_sync_runs_up_to_the_mark),
        cmocka_unit_test(marks_of_nothing_are_done),
        cmocka_unit_test(times_never_go_back_in_a_queue),
        cmocka_unit_test(queues_wait_for_each_other),
        cmocka_unit_test(an_idle_queue_may_wait_for_much),
        cmocka_unit_test(an_early_wait_keeps_what_it_followed),
        cmocka_unit_test(a_full_ring_runs_what_came_before),
        cmocka_unit_test(spans_are_kept),
        cmocka_unit_test(ordered_programs_give_the_same_in_every_order),
        cmocka_unit_test(unordered_programs_show_in_hostile_order),
        cmocka_unit_test(hostile_order_is_a_function_of_seed_and_rank),
        cmocka_unit_test(deadlocks_are_named),
        cmocka_unit_test(reads_are_proved),
        cmocka_unit_test(writes_are_poisoned),
        cmocka_unit_test(scratch_is_poisoned),
        cmocka_unit_test(upload_and_download_synchronize),
    };
    return cmocka_run_group_tests_name("executor", tests, NULL, NULL);
}
