/* Planted faults in small programs: each kind has exactly the defined effect, at the defined place and time. */
#include "fabric_ranks.h"
#include "machine/prove/prove.h"
#include "plan/keys/names.h"

enum { N = 5 };

static fault planted(fault_kind kind, op_kind operation, int64_t nth)
{
    return (fault){ .kind = kind, .operation = operation, .nth = nth, .world_rank = world_rank() };
}

static test_floor struck_floor(const fault *s)
{
    test_floor f = floor_open((machine_options){ .prove_access = s->kind != FAULT_UNWAIT }, 1 << 20);
    prove_plant(f.m, s);
    return f;
}

/* Program of three copies: b += a, c = b, d += c. */
typedef struct {
    float a[N], b[N], c[N], d[N];
} cells;

static void three_copies(queue *q, cells *x)
{
    submit(q, "a", fill_op(tensor_1d(x->a, F32, N), 1.0));
    submit(q, "b", copy_op(tensor_1d(x->b, F32, N), UPDATE, tensor_1d(x->a, F32, N)));
    submit(q, "c", copy_op(tensor_1d(x->c, F32, N), WRITE, tensor_1d(x->b, F32, N)));
    submit(q, "d", copy_op(tensor_1d(x->d, F32, N), UPDATE, tensor_1d(x->c, F32, N)));
}

static cells fresh(void)
{
    cells x;
    for (int i = 0; i < N; i++) x.a[i] = 0.0f, x.b[i] = 10.0f, x.c[i] = 20.0f, x.d[i] = 30.0f;
    return x;
}

static bool all_equal(const float x[N], float value)
{
    for (int i = 0; i < N; i++)
        if (x[i] != value) return false;
    return true;
}

/* Runs the program once in a step with the fault. */
static cells run_struck(fault s, int64_t faults)
{
    cells x = fresh();
    test_floor f = struck_floor(&s);
    machine_step(f.m, 0);
    three_copies(f.q[0], &x);
    machine_sync(f.m);
    assert_int_equal(prove_faults(f.m), faults);
    floor_close(&f);
    return x;
}

static void each_kind_does_what_it_says(void **state)
{
    static const struct {
        fault_kind kind;
        op_kind operation;
        int64_t nth;
        float a, b, c, d;
    } row[] = {
        { FAULT_DROP, OP_FILL, 1, 0, 10, 10, 40 },   { FAULT_DROP, OP_COPY, 1, 1, 10, 10, 40 },
        { FAULT_DROP, OP_COPY, 2, 1, 11, 0, 30 },    { FAULT_DROP, OP_COPY, 3, 1, 11, 11, 30 },
        { FAULT_STALE, OP_COPY, 1, 1, 10, 10, 40 },  { FAULT_STALE, OP_COPY, 2, 1, 11, 20, 50 },
        { FAULT_STALE, OP_COPY, 3, 1, 11, 11, 30 },  { FAULT_REPEAT, OP_COPY, 1, 1, 12, 12, 42 },
        { FAULT_REPEAT, OP_COPY, 2, 1, 11, 11, 41 }, { FAULT_REPEAT, OP_COPY, 3, 1, 11, 11, 52 },
        { FAULT_SCALE, OP_FILL, 1, 2, 12, 12, 42 },  { FAULT_SCALE, OP_COPY, 1, 1, 22, 22, 52 },
        { FAULT_SCALE, OP_COPY, 2, 1, 11, 22, 52 },  { FAULT_SCALE, OP_COPY, 3, 1, 11, 11, 82 },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        cells x = run_struck(planted(row[i].kind, row[i].operation, row[i].nth), 1);
        if (!all_equal(x.a, row[i].a) || !all_equal(x.b, row[i].b) || !all_equal(x.c, row[i].c) ||
            !all_equal(x.d, row[i].d))
            fail_msg("row %zu: %g %g %g %g", i, (double)x.a[0], (double)x.b[0], (double)x.c[0], (double)x.d[0]);
    }
}

static bool healthy(const cells *x)
{
    return all_equal(x->a, 1.0f) && all_equal(x->b, 11.0f) && all_equal(x->c, 11.0f) && all_equal(x->d, 41.0f);
}

static void what_is_not_there_is_not_struck(void **state)
{
    fault elsewhere = planted(FAULT_DROP, OP_COPY, 1);
    elsewhere.world_rank = world_rank() + 1;
    const fault none[] = { planted(FAULT_DROP, OP_COPY, 0),    planted(FAULT_DROP, OP_COPY, 4),
                           planted(FAULT_STALE, OP_MATMUL, 1), planted(FAULT_NONE, OP_COPY, 1),
                           planted(FAULT_UNWAIT, OP_COPY, 1),  elsewhere };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        cells x = run_struck(none[i], 0);
        assert_true(healthy(&x));
    }
}

/* Before the first step nothing is hit or counted; in every later step the same execution is hit. */
static void executions_are_counted_within_a_step(void **state)
{
    fault s = planted(FAULT_DROP, OP_COPY, 2);
    test_floor f = struck_floor(&s);
    cells x = fresh();
    three_copies(f.q[0], &x);
    machine_sync(f.m);
    assert_true(healthy(&x));
    for (int step = 0; step < 3; step++) {
        machine_step(f.m, step);
        x = fresh();
        three_copies(f.q[step], &x);
        machine_sync(f.m);
        assert_true(all_equal(x.b, 11.0f) && all_equal(x.c, 0.0f) && all_equal(x.d, 30.0f));
        assert_int_equal(prove_faults(f.m), step + 1);
    }
    floor_close(&f);
}

static void flip_inverts_one_bit_of_one_element(void **state)
{
    cells x = run_struck(planted(FAULT_FLIP, OP_COPY, 2), 1);
    uint32_t before, after;
    float eleven = 11.0f;
    memcpy(&before, &eleven, sizeof before);
    memcpy(&after, &x.c[N / 2], sizeof after);
    assert_int_equal(before ^ after, 0x40000000u);
    for (int i = 0; i < N; i++) assert_true(i == N / 2 || x.c[i] == 11.0f);
}

/* Runs one fill of a tensor of this format with the fault. */
static void fill_struck(fault_kind kind, dtype type, void *x, int64_t faults)
{
    fault s = planted(kind, OP_FILL, 1);
    test_floor f = struck_floor(&s);
    machine_step(f.m, 0);
    submit(f.q[0], "x", fill_op(tensor_1d(x, type, N), 3.0));
    machine_sync(f.m);
    assert_int_equal(prove_faults(f.m), faults);
    floor_close(&f);
}

static void every_format_is_struck(void **state)
{
    union {
        uint8_t codes[N];
        uint16_t bf16[N];
        double f64[N];
        uint64_t u64[N];
    } x;
    static const dtype types[] = { F32, BF16, F64, U64, I32, E4M3, E5M2 };
    for (int t = 0; t < 7; t++) {
        fill_struck(FAULT_SCALE, types[t], &x, 1);
        for (int i = 0; i < N; i++) assert_true(value_at(types[t], &x, i) == 6.0);
        fill_struck(FAULT_DROP, types[t], &x, 1);
        for (int i = 0; i < N; i++) assert_true(value_at(types[t], &x, i) == 0.0);
    }
    fill_struck(FAULT_FLIP, BF16, &x, 1);
    assert_int_equal(x.bf16[N / 2] ^ x.bf16[0], 0x4000);
    fill_struck(FAULT_FLIP, E4M3, &x, 1);
    assert_int_equal(x.codes[N / 2] ^ x.codes[0], 0x40);
    fill_struck(FAULT_FLIP, F64, &x, 1);
    assert_int_equal(x.u64[N / 2] ^ x.u64[0], 1ull << 62);
    fill_struck(FAULT_FLIP, U64, &x, 0);
    assert_true(x.u64[N / 2] == 3);
}

/* Leaves out the wait before the operation; the hazard is reported. */
static void unwait_leaves_out_the_wait(void **state)
{
    fault s = planted(FAULT_UNWAIT, OP_COPY, 2);
    cells x = fresh();
    test_floor f = struck_floor(&s);
    machine_step(f.m, 0);
    submit(f.q[0], "a", fill_op(tensor_1d(x.a, F32, N), 1.0));
    queue_wait(f.q[1], queue_mark(f.q[0]));
    submit(f.q[1], "b", copy_op(tensor_1d(x.b, F32, N), WRITE, tensor_1d(x.a, F32, N)));
    assert_int_equal(machine_hazards(f.m)->count + prove_faults(f.m), 0);
    queue_wait(f.q[2], queue_mark(f.q[0]));
    queue_wait(f.q[2], queue_mark(f.q[1]));
    submit(f.q[2], "c", copy_op(tensor_1d(x.c, F32, N), WRITE, tensor_1d(x.b, F32, N)));
    machine_sync(f.m);
    assert_int_equal(prove_faults(f.m), 1);
    assert_int_equal(machine_hazards(f.m)->count, 1);
    assert_non_null(strstr(machine_hazards(f.m)->sentence[0], "copy b (step 0, setup) and copy c (step 0, setup)"));
    assert_true(x.c[0] == 1.0f || x.c[0] == 10.0f);
    floor_close(&f);
}

/* Waiting for a dropped operation still means waiting for its predecessors; for a repeated one, for both runs. */
static void struck_operations_keep_their_place(void **state)
{
    static const fault_kind kinds[] = { FAULT_DROP, FAULT_STALE, FAULT_REPEAT, FAULT_SCALE, FAULT_FLIP };
    for (int k = 0; k < 5; k++) {
        cells x = fresh();
        fault s = planted(kinds[k], OP_COPY, 1);
        test_floor f = floor_open((machine_options){ .hostile = true, .order_seed = (uint32_t)k }, 0);
        prove_plant(f.m, &s);
        machine_step(f.m, 0);
        submit(f.q[0], "a", fill_op(tensor_1d(x.a, F32, N), 1.0));
        queue_wait(f.q[1], queue_mark(f.q[0]));
        mark done = submit(f.q[1], "b", copy_op(tensor_1d(x.b, F32, N), UPDATE, tensor_1d(x.a, F32, N)));
        queue_wait(f.q[2], done);
        submit(f.q[2], "a", fill_op(tensor_1d(x.a, F32, N), 7.0));
        submit(f.q[2], "b", fill_op(tensor_1d(x.b, F32, N), 8.0));
        machine_sync(f.m);
        assert_int_equal(machine_hazards(f.m)->count, 0);
        assert_int_equal(prove_faults(f.m), 1);
        assert_true(all_equal(x.a, 7.0f) && all_equal(x.b, 8.0f));
        floor_close(&f);
    }
}

/* A deck can plant a fault in every operation of a step. */
static void a_deck_names_what_a_step_submits(void **state)
{
    for (op_kind kind = 0; kind < OP_INITIALIZE; kind++) assert_string_equal(operation_names[kind], op_kind_name(kind));
    assert_null(operation_names[OP_INITIALIZE]);
}

TEST_PROGRAM("machine_fault", NULL, NULL, each_kind_does_what_it_says, what_is_not_there_is_not_struck,
             executions_are_counted_within_a_step, flip_inverts_one_bit_of_one_element, every_format_is_struck,
             unwait_leaves_out_the_wait, struck_operations_keep_their_place, a_deck_names_what_a_step_submits)
