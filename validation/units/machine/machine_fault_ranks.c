/* Planted faults in transfers. drop, stale and repeat hit the whole group of the faulty rank; the others hit only its
 * own result. All other transfers keep their results, and no rank is left waiting. Transfers are proven: exactly the
 * faults that change something are reported. machine_fault.c tests the effect of each kind. */
#include "fabric_ranks.h"
#include "machine/prove/prove.h"
#include "machine/watch/watch.h"
#include "parallel/mesh.h"

enum { STEPS = 2, ARENA_VALUE = 77, LARGE = 9001 };

typedef struct {
    op_kind kind;
    int among;
    bool in_place;
} planned;

/* Groups: all ranks; blocks of neighbours; ranks one block apart; links of a pipeline (outgoing: even). */
enum { OUT, IN, BACK_OUT, BACK_IN, BLOCKS = LINKS, ACROSS, ALL, GROUPS };
static test_group groups[GROUPS];
static mesh pipeline;
static const planned program[] = {
    { OP_ALL_REDUCE, ALL, true },        { OP_ALL_REDUCE, BLOCKS, true },  { OP_ALL_REDUCE, ALL, true },
    { OP_ALL_REDUCE, ACROSS, true },     { OP_ALL_REDUCE, ALL, true },     { OP_ALL_GATHER, ALL, false },
    { OP_ALL_GATHER, BLOCKS, true },     { OP_ALL_GATHER, ALL, false },    { OP_REDUCE_SCATTER, ALL, true },
    { OP_REDUCE_SCATTER, ACROSS, true }, { OP_ALL_TO_ALL, ALL, false },    { OP_EXCHANGE, ALL, false },
    { OP_EXCHANGE, ALL, false },         { OP_EXCHANGE, OUT, false },      { OP_EXCHANGE, IN, false },
    { OP_EXCHANGE, BACK_IN, false },     { OP_EXCHANGE, BACK_OUT, false }, { OP_EXCHANGE, IN, false },
    { OP_EXCHANGE, OUT, false },
};
enum { TRANSFERS = sizeof program / sizeof *program };

static int open_groups(void **state)
{
    watch_limit(WATCH_SECONDS);
    int ranks = world_ranks(), rank = world_rank(), block = ranks % 2 ? ranks : ranks > 2 ? ranks / 2 : 1;
    group_open(&groups[ALL], "all", 0, 1, ranks);
    group_open(&groups[BLOCKS], "block", rank / block * block, 1, block);
    group_open(&groups[ACROSS], "across", rank % block, block, ranks / block);
    mesh_layout l = {
        .degree = { 1, 1, 1, 1, ranks }, .expert = 1, .chunks_per_stage = 2, .ranks = ranks, .copies = 1
    };
    mesh_open(&pipeline, &l, rank, MESH_ON_HOST);
    groups[OUT].g = pipeline.link[LINK_FORWARD_OUT];
    groups[IN].g = pipeline.link[LINK_FORWARD_IN];
    groups[BACK_OUT].g = pipeline.link[LINK_BACKWARD_OUT];
    groups[BACK_IN].g = pipeline.link[LINK_BACKWARD_IN];
    return 0;
}

static int close_groups(void **state)
{
    for (int i = BLOCKS; i <= ALL; i++) group_close(&groups[i]);
    mesh_close(&pipeline);
    return 0;
}

static bool is_link(int i) { return program[i].among < LINKS; }
static bool sends_only(int i) { return is_link(i) && program[i].among % 2 == 0; }

/* Returns the neighbour's transfer for link transfer i of this rank. Both ends submit theirs in the same order. */
static int other_end(int i)
{
    int nth = 0, other = -1;
    for (int k = 0; k <= i; k++) nth += program[k].among == program[i].among;
    while (nth > 0) nth -= program[++other].among == (program[i].among ^ 1);
    return other;
}

/* Returns the direction of the other stage: +1 for outgoing forward and incoming backward links. */
static int toward(int i) { return program[i].among == OUT || program[i].among == BACK_IN ? 1 : -1; }

static group *group_at(int i) { return &groups[program[i].among].g; }
static float own_value(int i, int rank, int64_t k) { return (float)small_value(F32, rank, k, i); }

/* The written operand of transfer i, its correct result, and the read-only operand. */
typedef struct {
    float *written[TRANSFERS], *right[TRANSFERS], *read[TRANSFERS];
    int64_t n;
} buffers;

static int64_t written_elements(int i, int64_t n)
{
    if (sends_only(i)) return 0;
    bool part = program[i].kind == OP_ALL_REDUCE || program[i].kind == OP_EXCHANGE;
    return part ? n : n * group_at(i)->size;
}

static int neighbour(int distance) { return (world_rank() + distance + world_ranks()) % world_ranks(); }

static void submit_transfer(const test_floor *f, const buffers *b, int i)
{
    group *g = group_at(i);
    queue *q = f->q[i % FLOOR_QUEUES];
    int64_t n = b->n;
    tensor to = tensor_1d(b->written[i], F32, written_elements(i, n)), none = tensor_none();
    transfer in = { false, is_link(i) ? LINK_SENDER : neighbour(-1), to };
    transfer out = { true, is_link(i) ? LINK_RECEIVER : neighbour(1), tensor_1d(b->read[i], F32, n) };
    switch (program[i].kind) {
    case OP_ALL_REDUCE: submit(q, "x", all_reduce_op(g, to)); break;
    case OP_ALL_GATHER:
        submit(q, "x", all_gather_op(g, to, program[i].in_place ? none : tensor_1d(b->read[i], F32, n)));
        break;
    case OP_REDUCE_SCATTER: submit(q, "x", reduce_scatter_op(g, to)); break;
    case OP_ALL_TO_ALL: submit(q, "x", all_to_all_op(g, to, tensor_1d(b->read[i], F32, n * g->size))); break;
    default: submit(q, "x", exchange_op(g, sends_only(i) ? &out : (transfer[]){ in, out }, is_link(i) ? 1 : 2));
    }
}

/* Submits one transfer before the steps, then the program in each step. */
static void submit_setup(const test_floor *f, float *x)
{
    submit(f->q[0], "setup", all_reduce_op(&groups[ALL].g, tensor_1d(x, F32, 1)));
}

static void submit_step(const test_floor *f, const buffers *b, int step)
{
    machine_step(f->m, step);
    for (int i = 0; i < TRANSFERS; i++) submit_transfer(f, b, i);
}

/* The faulty rank determines on paper which transfer is hit, and broadcasts it. */
static fault known_strike(fault s, const buffers *b)
{
    float x = 1.0f;
    if (world_rank() == s.world_rank) {
        test_floor paper = floor_open((machine_options){ .on_paper = true }, 0);
        prove_plant(paper.m, &s);
        submit_setup(&paper, &x);
        for (int step = 0; step < STEPS; step++) submit_step(&paper, b, step);
        s = prove_planted(paper.m);
        floor_close(&paper);
    }
    for (int i = 0; i < GROUPS; i++) groups[i].g.sequence = groups[i].g.step = 0;
    world_broadcast(&s, sizeof s, s.world_rank);
    return s;
}

static int struck_transfer(const fault *s)
{
    int64_t seen = 0;
    for (int i = 0; i < TRANSFERS; i++)
        if (program[i].kind == s->operation && ++seen == s->nth) return i;
    return -1;
}

/* The first kinds hit both ends of a link; the others hit only an end that writes. */
static bool strikes_link(const fault *s, int i)
{
    int struck = struck_transfer(s), peer = (s->world_rank + toward(struck) + world_ranks()) % world_ranks();
    if (world_rank() == s->world_rank && i == struck) return s->kind <= FAULT_REPEAT || !sends_only(i);
    return s->kind <= FAULT_REPEAT && world_rank() == peer && i == other_end(struck);
}

static bool strikes_here(const fault *s, int i)
{
    const group *g = group_at(i);
    bool in_group = false;
    if (struck_transfer(s) < 0 || s->kind == FAULT_UNWAIT) return false;
    if (is_link(struck_transfer(s))) return strikes_link(s, i);
    for (int r = 0; r < g->size; r++) in_group = in_group || group_world_rank(g, r) == s->world_rank;
    return i == struck_transfer(s) && (s->kind <= FAULT_REPEAT ? in_group : world_rank() == s->world_rank);
}

/* In a scattered sum, only this rank's part counts. */
static bool counts(int i, int64_t k, int64_t n)
{
    return program[i].kind != OP_REDUCE_SCATTER || k / n == group_at(i)->rank;
}

/* Returns whether a fault changes the result of transfer i here. */
static bool is_changed(const buffers *b, int i)
{
    bool changed = false;
    for (int64_t k = 0; k < written_elements(i, b->n); k++)
        changed = changed || (counts(i, k, b->n) && memcmp(&b->written[i][k], &b->right[i][k], sizeof(float)) != 0);
    return changed;
}

static void set_buffers(buffers *b)
{
    for (int i = 0; i < TRANSFERS; i++) {
        for (int64_t k = 0; k < written_elements(i, b->n); k++)
            b->written[i][k] = program[i].in_place ? own_value(i, world_rank(), k) : ARENA_VALUE;
        for (int64_t k = 0; k < b->n * group_at(i)->size; k++) b->read[i][k] = own_value(i, world_rank(), k);
    }
}

/* Sets the results of the program without a fault. */
static void set_right(buffers *b)
{
    test_floor f = floor_open((machine_options){ .prove_access = true }, LARGE * 4 * 8 + 64);
    set_buffers(b);
    submit_step(&f, b, 0);
    machine_sync(f.m);
    for (int i = 0; i < TRANSFERS; i++)
        memcpy(b->right[i], b->written[i], (size_t)written_elements(i, b->n) * sizeof(float));
    floor_close(&f);
}

static void run_struck(fault wanted, buffers *b, bool hostile)
{
    fault s = known_strike(wanted, b);
    float x = (float)(world_rank() + 1);
    int64_t faults = 0;
    bool right = true, changed = false;
    test_floor f =
        floor_open((machine_options){ .hostile = hostile, .order_seed = (uint32_t)s.nth, .prove_access = true },
                   LARGE * 4 * 8 + 64);
    tally step_counts = { .sum_bytes = TRANSFERS * 2 * ((size_t)(b->n * world_ranks() * 4) + ARENA_ALIGNMENT) };
    prove_plant(f.m, &s);
    submit_setup(&f, &x);
    prove_transfers(f.m, DELIVERY_ALL, &step_counts);
    for (int step = 0; step < STEPS; step++) {
        set_buffers(b);
        submit_step(&f, b, step);
        machine_sync(f.m);
        prove_judge_sums(f.m);
        for (int i = 0; i < TRANSFERS; i++) {
            faults += strikes_here(&s, i);
            changed = changed || is_changed(b, i);
            right = right && (strikes_here(&s, i) || !is_changed(b, i));
        }
    }
    right = right && x == (float)(world_ranks() * (world_ranks() + 1) / 2) && prove_faults(f.m) == faults;
    delivery_report found = prove_judge_transfers(f.m);
    changed = world_first(changed) < world_ranks();
    floor_close(&f);
    assert_on_all((found.differing > 0) == changed && found.transfers == STEPS * TRANSFERS * world_ranks(),
                  "kind %d of %s %lld on rank %d, proven: %lld differences: %s", s.kind, op_kind_name(s.operation),
                  (long long)s.nth, s.world_rank, (long long)found.differing, found.sentence);
    assert_on_all(right, "kind %d of %s %lld on rank %d", s.kind, op_kind_name(s.operation), (long long)s.nth,
                  s.world_rank);
}

/* Plants the fault in every execution of this kind of transfer, and in one execution that does not exist. */
static void strike_all(op_kind operation, int64_t executions, int64_t n)
{
    buffers b = { .n = n };
    for (int i = 0; i < TRANSFERS; i++) {
        b.written[i] = bytes_of((size_t)(n * world_ranks()) * sizeof(float));
        b.right[i] = bytes_of((size_t)(n * world_ranks()) * sizeof(float));
        b.read[i] = bytes_of((size_t)(n * world_ranks()) * sizeof(float));
    }
    set_right(&b);
    for (int kind = FAULT_DROP; kind <= FAULT_UNWAIT; kind++)
        for (int64_t nth = 1; nth <= executions + 1; nth++)
            for (int rank = 0; rank < world_ranks(); rank += world_ranks() - 1)
                run_struck((fault){ .kind = (fault_kind)kind, .operation = operation, .nth = nth, .world_rank = rank },
                           &b, nth % 2);
    for (int i = 0; i < TRANSFERS; i++) {
        free(b.written[i]);
        free(b.right[i]);
        free(b.read[i]);
    }
}

static void all_reduce_is_struck(void **state) { strike_all(OP_ALL_REDUCE, 5, 3); }
static void large_all_reduce_is_struck(void **state) { strike_all(OP_ALL_REDUCE, 5, LARGE); }
static void all_gather_is_struck(void **state) { strike_all(OP_ALL_GATHER, 3, 30); }
static void reduce_scatter_is_struck(void **state) { strike_all(OP_REDUCE_SCATTER, 2, 30); }
static void all_to_all_is_struck(void **state) { strike_all(OP_ALL_TO_ALL, 1, 30); }
static void exchange_is_struck(void **state) { strike_all(OP_EXCHANGE, 8, 30); }

WORLD_PROGRAM("strike_ranks", open_groups, close_groups, all_reduce_is_struck, large_all_reduce_is_struck,
              all_gather_is_struck, reduce_scatter_is_struck, all_to_all_is_struck, exchange_is_struck)
