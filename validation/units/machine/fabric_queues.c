/* Transfers of several groups on several queues at once. Ranks may run their queues in different orders, and no
 * transfer is confused, lost or blocked. Programs are random, equal on all ranks, with known results. */
#include "fabric_ranks.h"
#include "machine/watch/watch.h"
#include "units/test_length.h"

enum { PROGRAM = 120, SEEDS = 6, SEEDS_ON_GPUS = 2, GROUPS = 4, LONGEST = 9001 };

static test_group group_of[GROUPS];
static bool briefly;

/* Groups: all ranks; blocks of neighbours; ranks one block apart; all ranks again. If the number of ranks is odd, every
 * group has all ranks. */
static int open_groups(void **state)
{
    watch_limit(WATCH_SECONDS);
    int ranks = world_ranks(), rank = world_rank(), block = ranks % 2 ? ranks : ranks > 2 ? ranks / 2 : 1;
    briefly = test_is_brief_emulation();
    group_open(&group_of[0], "all", 0, 1, ranks);
    group_open(&group_of[1], "block", rank / block * block, 1, block);
    group_open(&group_of[2], "across", rank % block, block, ranks / block);
    group_open(&group_of[3], "again", 0, 1, ranks);
    return 0;
}

static int close_groups(void **state)
{
    for (int i = 0; i < GROUPS; i++) group_close(&group_of[i]);
    return 0;
}

/* Sends x [size * n], receives y [size * n]; there: in the machine's memory. */
typedef struct {
    op_kind kind;
    int on;
    group *g;
    dtype type;
    int64_t n;
    tensor x, y, x_there, y_there;
} task;

static uint32_t roll(uint32_t program, uint32_t draw, uint32_t sides)
{
    return mulhi(philox4x32((philox_block){ { draw, program, 0, 0 } }, 29, 31).word[0], sides);
}

/* Returns task i of the program, equal on all ranks. Sizes are below and above the threshold of all_reduce. */
static task task_of(uint32_t program, int i)
{
    static const op_kind kinds[] = { OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE, OP_ALL_TO_ALL, OP_EXCHANGE };
    static const int64_t sizes[] = { 1, 5, 300, 2500, LONGEST };
    uint32_t draw = (uint32_t)i * 8;
    task t = { kinds[roll(program, draw, 5)],
               (int)roll(program, draw + 1, FLOOR_QUEUES),
               &group_of[roll(program, draw + 2, GROUPS)].g,
               roll(program, draw + 3, 2) ? F32 : BF16,
               sizes[roll(program, draw + 4, 5)],
               { 0 },
               { 0 },
               { 0 },
               { 0 } };
    if (t.kind == OP_EXCHANGE && t.g->size == 1) t.kind = OP_ALL_REDUCE;
    if (briefly && t.n > 300) t.n = 300;
    return t;
}

static int neighbour(const group *g, int distance) { return (g->rank + distance + g->size) % g->size; }

static void prepare(const test_floor *f, task *t, int round)
{
    int64_t whole = t->n * t->g->size;
    size_t bytes = (size_t)whole * dtype_bytes(t->type);
    t->x = tensor_1d(bytes_of(bytes), t->type, whole);
    t->y = tensor_1d(bytes_of(bytes), t->type, whole);
    for (int64_t i = 0; i < whole; i++) value_set(t->type, t->x.data, i, small_value(t->type, world_rank(), i, round));
    t->x_there = placed(f, t->x);
    t->y_there = placed(f, t->y);
}

static void submit_task(const test_floor *f, const task *t)
{
    queue *q = f->q[t->on];
    group *g = t->g;
    tensor whole = t->x_there, out = t->y_there, part = tensor_slice(whole, 0, 0, t->n),
           part_out = tensor_slice(out, 0, 0, t->n);
    transfer list[] = { { false, neighbour(g, -1), part_out }, { true, neighbour(g, 1), part } };
    switch (t->kind) {
    case OP_ALL_GATHER: submit(q, "x", all_gather_op(g, out, part)); break;
    case OP_REDUCE_SCATTER: submit(q, "x", reduce_scatter_op(g, whole)); break;
    case OP_ALL_REDUCE: submit(q, "x", all_reduce_op(g, part)); break;
    case OP_ALL_TO_ALL: submit(q, "x", all_to_all_op(g, out, whole)); break;
    default: submit(q, "x", exchange_op(g, list, 2));
    }
}

static double sum_at(const task *t, int64_t i, int round)
{
    double sum = 0.0;
    for (int r = 0; r < t->g->size; r++) sum += small_value(t->type, group_world_rank(t->g, r), i, round);
    return sum;
}

static double expected(const task *t, int64_t i, int round)
{
    switch (t->kind) {
    case OP_ALL_GATHER: return small_value(t->type, group_world_rank(t->g, (int)(i / t->n)), i % t->n, round);
    case OP_REDUCE_SCATTER: return sum_at(t, t->g->rank * t->n + i, round);
    case OP_ALL_REDUCE: return sum_at(t, i, round);
    case OP_ALL_TO_ALL:
        return small_value(t->type, group_world_rank(t->g, (int)(i / t->n)), t->g->rank * t->n + i % t->n, round);
    default: return small_value(t->type, group_world_rank(t->g, neighbour(t->g, -1)), i, round);
    }
}

static bool finish(const test_floor *f, task *t, int round)
{
    fetched(f, t->x, t->x_there);
    fetched(f, t->y, t->y_there);
    bool in_place = t->kind == OP_ALL_REDUCE || t->kind == OP_REDUCE_SCATTER,
         whole = t->kind == OP_ALL_GATHER || t->kind == OP_ALL_TO_ALL;
    const char *result = in_place ? t->x.data : t->y.data;
    int64_t n = whole ? t->n * t->g->size : t->n;
    if (t->kind == OP_REDUCE_SCATTER) result += (size_t)(t->g->rank * t->n) * dtype_bytes(t->type);
    bool right = true;
    for (int64_t i = 0; i < n; i++) right = right && value_at(t->type, result, i) == expected(t, i, round);
    free(t->x.data);
    free(t->y.data);
    return right;
}

/* Scratch for the largest sum: the parts of all ranks, and the partial sum. */
static size_t scratch_bytes(void) { return (size_t)(world_ranks() + 1) * LONGEST * sizeof(float); }

/* Submits everything before waiting for anything. Ranks have different seeds of order. */
static bool program_is_exact(bool hostile, uint32_t seed, uint32_t program)
{
    task t[PROGRAM];
    test_floor f =
        floor_open((machine_options){ .hostile = hostile, .order_seed = seed, .prove_access = true }, scratch_bytes());
    bool right = true;
    for (int i = 0; i < PROGRAM; i++) {
        t[i] = task_of(program, i);
        prepare(&f, &t[i], i);
    }
    for (int i = 0; i < PROGRAM; i++) submit_task(&f, &t[i]);
    mark_sync(queue_mark(f.q[seed % FLOOR_QUEUES]));
    machine_sync(f.m);
    for (int i = 0; i < PROGRAM; i++) right = finish(&f, &t[i], i) && right;
    floor_close(&f);
    return right;
}

static uint32_t seeds(void) { return tested_machine() == MACHINE_HOST ? SEEDS : briefly ? 1 : SEEDS_ON_GPUS; }

static void in_submitted_order(void **state)
{
    for (uint32_t p = 0; p < seeds(); p++) assert_on_all(program_is_exact(false, 0, p), "program %u", p);
}

static void in_hostile_order(void **state)
{
    for (uint32_t p = 0; p < seeds(); p++)
        assert_on_all(program_is_exact(true, p * 1000 + (uint32_t)world_rank(), p), "program %u", p);
}

static void some_ranks_in_hostile_order(void **state)
{
    for (uint32_t p = 0; p < seeds(); p++)
        assert_on_all(program_is_exact(world_rank() % 2, p, SEEDS + p), "program %u", p);
}

/* One rank at a time submits late, long after the other ranks' transfers are in flight. */
static void ranks_come_late(void **state)
{
    static float x[2][5000];
    test_floor f = floor_open((machine_options){ .hostile = false }, 5000 * 4 * MOST_RANKS);
    tensor all = tensor_2d(x, F32, 2, 5000);
    for (int late = briefly ? world_ranks() - 1 : 0; late < world_ranks(); late++) {
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 5000; i++) x[k][i] = (float)(k + world_rank());
        tensor there = placed(&f, all);
        machine_sync(f.m);
        if (world_rank() == late)
            for (int i = 0; i < 200; i++) submit(f.q[0], "late", fill_op(tensor_1d(f.scratch[3], F32, 20000), 1.0));
        submit(f.q[0], "x", all_reduce_op(&group_of[0].g, tensor_flat(tensor_slice(there, 0, 0, 1))));
        submit(f.q[1], "y",
               all_reduce_op(&group_of[3].g, tensor_slice(tensor_flat(tensor_slice(there, 0, 1, 1)), 0, 0, 3)));
        machine_sync(f.m);
        fetched(&f, all, there);
        float sum = (float)(world_ranks() * (world_ranks() - 1) / 2);
        assert_on_all(x[0][0] == sum && x[0][4999] == sum && x[1][2] == sum + (float)world_ranks(), "rank %d late",
                      late);
    }
    floor_close(&f);
}

WORLD_PROGRAM("fabric_queues", open_groups, close_groups, in_submitted_order, in_hostile_order,
              some_ranks_in_hostile_order, ranks_come_late)
