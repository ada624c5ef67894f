/* Timed transfers. */
#include "bench/calibrate/transfers.h"
#include "base/clock.h"
#include "bench/health/statistics.h"
#include "bench/project/listed.h"
#include "bench/project/price.h"
#include "machine/op/kernels.h"
#include "machine/world.h"
#include <string.h>

enum { LEAST_BYTES = 128, STEP = 8, BATCHES = 7, GAP_RUNS = 4096 };

void transfer_bench_open(transfer_bench *b, machine_kind kind, transfer_blocks blocks)
{
    mesh_layout l = { .ranks = world_ranks(), .expert = 1, .chunks_per_stage = 1 };
    for (int a = 0; a < AXES; a++) l.degree[a] = a == AXIS_TENSOR ? l.ranks : 1;
    size_t bytes = 4 * (size_t)TRANSFER_MOST_BYTES;
    machine_set_blocks(blocks);
    *b = (transfer_bench){ .kind = kind, .machine = machine_open(&(machine_options){ .kind = kind }) };
    mesh_open(&b->all, &l, world_rank(), mesh_on(kind));
    b->memory = machine_memory_take(kind, bytes);
    machine_memory_clear(kind, b->memory, 0, bytes);
    b->queue = machine_queue(b->machine, "transfers");
    queue_set_scratch(b->queue, b->memory + bytes / 2, bytes / 2);
}

void transfer_bench_close(transfer_bench *b)
{
    machine_sync(b->machine);
    machine_close(b->machine);
    machine_memory_give_back(b->kind, b->memory);
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
    for (int i = 0; i < runs && peer >= 0; i++)
        submit(b->queue, "pair", exchange_op(&b->all.axis[AXIS_TENSOR], both, 2));
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

static op transfer_of(const transfer_bench *b, group *g, op_kind kind, int64_t bytes)
{
    tensor whole = buffer_of(b, 0, bytes);
    transfer one = { .send = g->rank % 2 == 0, .peer = g->rank ^ 1, .tensor = whole };
    switch (kind) {
    case OP_ALL_GATHER: return all_gather_op(g, whole, tensor_none());
    case OP_REDUCE_SCATTER: return reduce_scatter_op(g, whole);
    case OP_ALL_REDUCE: return all_reduce_op(g, whole);
    case OP_ALL_TO_ALL: return all_to_all_op(g, whole, buffer_of(b, 1, bytes));
    default: return exchange_op(g, &one, 1);
    }
}

/* Ranks and how many of them share a domain: of the rank that has most. */
typedef struct {
    int ranks, within;
} agreed_place;

static agreed_place place_agreed(const group *g, int domain)
{
    double place[2] = { g->size, group_within(g, domain) };
    world_maximum(place, 2);
    return (agreed_place){ (int)place[0], (int)place[1] };
}

/* The mean of the ranks that take part; g: NULL on one that does not, and of an exchange on one without a neighbour. */
static double batch_seconds(transfer_bench *b, group *g, op_kind kind, int64_t bytes)
{
    int runs = bytes > 1 << 22 ? 2 : bytes > 1 << 16 ? 16 : 128;
    world_barrier();
    double begin = clock_seconds();
    for (int i = 0; i < runs && g; i++) submit(b->queue, "calibrate", transfer_of(b, g, kind, bytes));
    machine_sync(b->machine);
    double sum[2] = { g ? clock_seconds() - begin : 0.0, g != NULL };
    world_sum(sum, 2);
    return sum[0] / sum[1] / runs;
}

static bool is_listed(const listed_times *t, const char *key)
{
    for (const listed_time *x = t->list; x < t->list + t->count; x++)
        if (strcmp(x->key, key) == 0) return true;
    return false;
}

/* Measures it unless such a group has been. */
static void measure_kind(transfer_bench *b, group *g, op_kind kind, agreed_place of, listed_times *to)
{
    int64_t unit = (int64_t)sizeof(float) * (kind == OP_EXCHANGE ? 1 : of.ranks);
    listed_time x;
    if (is_listed(to, transfer_key(kind, of.ranks, of.within, x.key))) return;
    for (int64_t most = LEAST_BYTES; most <= TRANSFER_MOST_BYTES; most *= STEP) {
        int64_t bytes = most / unit * unit;
        double batch[BATCHES];
        if (bytes == 0) continue;
        for (int i = 0; i < BATCHES; i++) batch[i] = batch_seconds(b, g, kind, bytes);
        x.work = (double)bytes, x.seconds = median_of(batch, BATCHES);
        listed_add(to, x);
    }
}

/* Has a case before this one the same layout? */
static bool is_repeated(const deck *d, int64_t at)
{
    for (int64_t i = 0; i < at; i++)
        if (memcmp(&d->item[i].layout, &d->item[at].layout, sizeof d->item[at].layout) == 0) return true;
    return false;
}

static void measure_layout(transfer_bench *b, const bench_case *c, int domain, listed_times *to)
{
    static const op_kind collectives[] = { OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE, OP_ALL_TO_ALL };
    mesh m;
    mesh_open(&m, &c->layout, world_rank(), mesh_on(b->kind));
    group *of[] = {
        &m.axis[AXIS_TENSOR], &m.axis[AXIS_CONTEXT], &m.axis[AXIS_SHARD], &m.gradient, &m.model, &m.all, &m.expert,
        &m.expert_gradient
    };
    size_t groups = sizeof of / sizeof *of - (c->layout.expert > 1 ? 0 : 2); /* the last two are experts' */
    for (size_t g = 0; g < groups; g++)
        for (size_t k = 0; k < sizeof collectives / sizeof *collectives && of[g]->size > 1; k++)
            measure_kind(b, m.takes_part ? of[g] : NULL, collectives[k], place_agreed(of[g], domain), to);
    mesh_close(&m);
}

listed_times transfers_measure(transfer_bench *b, const deck *d, int domain)
{
    listed_times list = { .count = 0 };
    group *all = &b->all.axis[AXIS_TENSOR];
    bool alone = (all->rank ^ 1) >= all->size;
    if (world_ranks() > 1) measure_kind(b, alone ? NULL : all, OP_EXCHANGE, place_agreed(all, domain), &list);
    for (int64_t i = 0; i < d->cases; i++)
        if (!is_repeated(d, i)) measure_layout(b, &d->item[i], domain, &list);
    return list;
}
