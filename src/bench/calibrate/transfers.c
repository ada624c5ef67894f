/* Operands, groups and timing of transfers. */
#include "bench/calibrate/transfers.h"
#include "base/clock.h"
#include "bench/health/statistics.h"
#include "bench/launch/case_machine.h"
#include "bench/project/listed.h"
#include "bench/project/price.h"
#include "machine/op/kernels.h"
#include "machine/world.h"
#include "train/measure.h"
#include <string.h>

enum { LEAST_BYTES = 128, SIZE_RATIO = 8, BATCHES = 7, GAP_RUNS = 4096 };
#define OPERANDS_AND_SCRATCH (4 * (size_t)TRANSFER_MOST_BYTES)

/* Operands lie in the first half of the memory, scratch in the second. */
static void use_memory(transfer_bench *b, char *memory)
{
    machine_sync(b->machine);
    machine_memory_clear(b->kind, memory, 0, OPERANDS_AND_SCRATCH);
    queue_set_scratch(b->queue, memory + OPERANDS_AND_SCRATCH / 2, OPERANDS_AND_SCRATCH / 2);
    b->memory = memory;
}

void transfer_bench_open(transfer_bench *b, machine_kind kind, transfer_blocks blocks)
{
    mesh_layout l = { .ranks = world_ranks(), .expert = 1, .chunks_per_stage = 1, .copies = 1 };
    for (int a = 0; a < AXES; a++) l.degree[a] = a == AXIS_DATA ? l.ranks : 1;
    machine_set_blocks(blocks);
    machine_window_reserve(kind, OPERANDS_AND_SCRATCH);
    *b = (transfer_bench){ .kind = kind, .machine = machine_open(&(machine_options){ .kind = kind }) };
    b->queue = machine_queue(b->machine, "transfers");
    mesh_open(&b->all, &l, world_rank(), mesh_on(kind));
    use_memory(b, b->own_memory = machine_memory_take(kind, OPERANDS_AND_SCRATCH));
}

void transfer_bench_close(transfer_bench *b)
{
    machine_sync(b->machine);
    machine_close(b->machine);
    machine_memory_give_back(b->kind, b->own_memory);
    mesh_close(&b->all);
}

static tensor buffer_of(const transfer_bench *b, int which, int64_t bytes)
{
    return tensor_1d(b->memory + (size_t)which * TRANSFER_MOST_BYTES, F32, bytes / (int64_t)sizeof(float));
}

double transfer_pair_seconds(transfer_bench *b, int peer, int64_t bytes, int runs)
{
    transfer both[2] = { { true, peer, buffer_of(b, 0, bytes) }, { false, peer, buffer_of(b, 1, bytes) } };
    double begin = clock_seconds();
    for (int i = 0; i < runs && peer >= 0; i++) submit(b->queue, "pair", exchange_op(&b->all.gradient, both, 2));
    machine_sync(b->machine);
    return (clock_seconds() - begin) / runs;
}

double transfer_gap(transfer_bench *b)
{
    tensor one = buffer_of(b, 0, sizeof(float));
    tally *t = machine_tally(b->machine);
    tally_clear(t);
    double begin = clock_seconds();
    for (int i = 0; i < GAP_RUNS; i++) submit(b->queue, "gap", fill_op(one, 0.0));
    machine_sync(b->machine);
    return (clock_seconds() - begin - t->kind[OP_FILL].seconds) / GAP_RUNS;
}

/* An exchange sends one way, from the lower rank to the higher; other kinds do not use `peer`. */
static op transfer_op(const transfer_bench *b, group *g, op_kind kind, int peer, int64_t bytes)
{
    tensor whole = buffer_of(b, 0, bytes);
    transfer one = { .send = g->rank < peer, .peer = peer, .tensor = whole };
    switch (kind) {
    case OP_ALL_GATHER: return all_gather_op(g, whole, tensor_none());
    case OP_REDUCE_SCATTER: return reduce_scatter_op(g, whole);
    case OP_ALL_REDUCE: return all_reduce_op(g, whole);
    case OP_ALL_TO_ALL: return all_to_all_op(g, whole, buffer_of(b, 1, bytes));
    default: return exchange_op(g, &one, 1);
    }
}

/* One kind of transfer that all ranks time together, each in its own group. */
typedef struct {
    group *g; /* NULL if this rank takes no part */
    op_kind kind;
    int peer;          /* of an exchange */
    int ranks, within; /* of the group, and of its domain: maxima over all groups */
} timed_transfer;

static timed_transfer timed_transfer_of(group *g, op_kind kind, int peer, int domain)
{
    double size_within[2] = { g ? g->size : 0.0, g ? group_within(g, domain) : 0.0 };
    world_maximum(size_within, 2);
    return (timed_transfer){ g, kind, peer, (int)size_within[0], (int)size_within[1] };
}

static double batch_seconds(transfer_bench *b, const timed_transfer *t, int64_t bytes)
{
    int runs = bytes > 1 << 22 ? 2 : bytes > 1 << 16 ? 16 : 128;
    world_barrier();
    double begin = clock_seconds();
    for (int i = 0; i < runs && t->g; i++) submit(b->queue, "calibrate", transfer_op(b, t->g, t->kind, t->peer, bytes));
    machine_sync(b->machine);
    double sum[2] = { t->g ? clock_seconds() - begin : 0.0, t->g != NULL };
    world_sum(sum, 2);
    return sum[0] / sum[1] / runs;
}

static bool is_listed(const listed_times *list, const char *key)
{
    for (const listed_time *x = list->list; x < list->list + list->count; x++)
        if (strcmp(x->key, key) == 0) return true;
    return false;
}

/* Adds the times of a transfer for all operand sizes, unless it is in the list already. */
static void time_transfer(transfer_bench *b, const timed_transfer *t, listed_times *to)
{
    int64_t unit = (int64_t)sizeof(float) * (t->kind == OP_EXCHANGE ? 1 : t->ranks);
    listed_time x;
    if (is_listed(to, transfer_key(t->kind, t->ranks, t->within, x.key))) return;
    for (int64_t limit = LEAST_BYTES; limit <= TRANSFER_MOST_BYTES; limit *= SIZE_RATIO) {
        int64_t bytes = limit / unit * unit;
        double batch[BATCHES];
        if (bytes == 0) continue;
        for (int i = 0; i < BATCHES; i++) batch[i] = batch_seconds(b, t, bytes);
        x.work = (double)bytes, x.seconds = median_of(batch, BATCHES);
        listed_add(to, x);
    }
}

static const op_kind collectives[] = { OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE, OP_ALL_TO_ALL };
enum { COLLECTIVES = sizeof collectives / sizeof *collectives, GROUPS = 9 };

static void list_groups(mesh *m, group *groups[GROUPS])
{
    group *all[GROUPS] = { &m->axis[AXIS_TENSOR],
                           &m->axis[AXIS_CONTEXT],
                           &m->axis[AXIS_SHARD],
                           &m->axis[AXIS_PIPELINE],
                           &m->gradient,
                           &m->model,
                           &m->all,
                           &m->expert,
                           &m->expert_gradient };
    memcpy(groups, all, sizeof all);
}

/* Sets used[group][collective] to nonzero if a step of any rank has this collective in this group. */
static void find_used(const bench_case *c, group *const groups[GROUPS], double used[GROUPS][COLLECTIVES])
{
    mesh m;
    trainer_options o = { .machine = case_machine(c) };
    o.machine.keeps_order = true;
    mesh_open(&m, &c->layout, world_rank() % c->layout.ranks, MESH_PAPER);
    measure paper = measure_case(c, &m, &o);
    const submissions *s = paper.prepared.order;
    for (const work_item *x = s->item; x < s->item + s->items; x++)
        for (int g = 0; g < GROUPS && x->group >= 0; g++)
            for (int k = 0; k < COLLECTIVES; k++)
                used[g][k] += groups[g]->size > 1 && paper.prepared.note[x->note].op.kind == collectives[k] &&
                              group_same(&s->group[x->group], groups[g]);
    measure_free(&paper);
    mesh_close(&m);
    world_maximum(&used[0][0], GROUPS * COLLECTIVES);
}

/* Takes memory that copy engines can reach, as the trainer does for its operands (train/measure.c). */
static char *take_window(const transfer_bench *b, mesh *m)
{
    group *const window_groups[] = {
        &m->axis[AXIS_TENSOR], &m->axis[AXIS_CONTEXT], &m->context_reversed, &m->axis[AXIS_SHARD], &m->expert,
        &m->gradient
    };
    return machine_window_take(b->kind, OPERANDS_AND_SCRATCH, window_groups, 6 - machine_repeats_bits(), &m->all);
}

static void time_layout(transfer_bench *b, const bench_case *c, int domain, listed_times *to)
{
    mesh m;
    group *groups[GROUPS];
    double used[GROUPS][COLLECTIVES] = { { 0.0 } };
    machine_set_blocks(case_blocks(c));
    mesh_open(&m, &c->layout, world_rank(), mesh_on(b->kind));
    list_groups(&m, groups);
    char *window = m.takes_part ? take_window(b, &m) : NULL;
    if (window) use_memory(b, window);
    find_used(c, groups, used);
    for (int g = 0; g < GROUPS; g++)
        for (int k = 0; k < COLLECTIVES; k++) {
            if (used[g][k] == 0.0) continue;
            timed_transfer t = timed_transfer_of(m.takes_part ? groups[g] : NULL, collectives[k], -1, domain);
            time_transfer(b, &t, to);
        }
    use_memory(b, b->own_memory);
    if (window) machine_memory_give_back(b->kind, window);
    mesh_close(&m);
}

/* Times exchanges of neighbours, and of ranks in neighbouring domains. */
static void time_exchanges(transfer_bench *b, int domain, listed_times *to)
{
    group *all = &b->all.gradient;
    int rank = all->rank, near = rank ^ 1, far = (rank / domain ^ 1) * domain + rank % domain;
    timed_transfer t = { near < all->size ? all : NULL, OP_EXCHANGE, near, 2, 2 };
    time_transfer(b, &t, to);
    if (all->size / domain < 2) return;
    t = (timed_transfer){ far < all->size ? all : NULL, OP_EXCHANGE, far, 2, 1 };
    time_transfer(b, &t, to);
}

listed_times transfers_measure(transfer_bench *b, const deck *d, int domain)
{
    listed_times list = { .count = 0 };
    if (world_ranks() > 1) time_exchanges(b, domain, &list);
    for (int64_t i = 0; i < d->cases && world_ranks() > 1; i += d->item[i].repeats)
        time_layout(b, &d->item[i], domain, &list);
    return list;
}
