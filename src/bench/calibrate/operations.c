/* Slices of all cases, timed on all ranks. */
#include "bench/calibrate/operations.h"
#include "base/memory.h"
#include "bench/health/statistics.h"
#include "bench/project/listed.h"
#include "bench/slice/slice.h"
#include "machine/world.h"
#include <math.h>
#include <string.h>

/* One operation on one rank. */
typedef struct {
    listed_time time;    /* seconds: mean of the passes */
    double pass[BLOCKS]; /* mean of each pass; a pass goes through all operations, so a disturbance spreads over them */
} timed_operation;

/* Operations that this rank has timed so far. pass, flops, bytes: sums over one step of each case. */
typedef struct {
    timed_operation *list;
    int64_t count, capacity;
    double pass[BLOCKS], flops, bytes;
} timed_operations;

static timed_operation timed_operation_of(const slice *s, int i)
{
    timed_operation x;
    memcpy(x.pass, s->time[i].pass, sizeof x.pass);
    x.time = listed_of(&s->work.note[i].op, mean_of_last(x.pass, BLOCKS, BLOCKS));
    return x;
}

static int find_or_add_row(operation_table *t, const listed_time *x)
{
    int i = 0;
    while (i < t->operations && !listed_same(&t->listed[i], x)) i++;
    if (i < t->operations) return i;
    t->listed = reallocate(t->listed, ++t->operations, sizeof *t->listed, "measured operations");
    t->seconds = reallocate(t->seconds, (int64_t)t->operations * t->ranks, sizeof *t->seconds, "measured operations");
    t->listed[i] = *x;
    for (int r = 0; r < t->ranks; r++) t->seconds[i * t->ranks + r] = (double)NAN;
    return i;
}

typedef struct {
    double p10, mean, p90; /* sums over the operations of all ranks */
} spread;

static void add_spread(spread *sum, const timed_operation *x)
{
    double sorted[BLOCKS];
    memcpy(sorted, x->pass, sizeof sorted);
    sort_numbers(sorted, BLOCKS);
    sum->p10 += quantile(sorted, BLOCKS, 0.1), sum->p90 += quantile(sorted, BLOCKS, 0.9), sum->mean += x->time.seconds;
}

/* all: [ranks, most]; unused entries have no key. */
static void add_ranks(operation_table *t, const timed_operation *all, int most, spread *sum)
{
    for (int r = 0; r < t->ranks; r++)
        for (const timed_operation *x = all + (int64_t)r * most; x < all + (int64_t)(r + 1) * most; x++) {
            if (!x->time.key[0]) continue;
            int row = find_or_add_row(t, &x->time);
            t->seconds[row * t->ranks + r] = x->time.seconds;
            add_spread(sum, x);
        }
}

/* Returns the index of the operation with this key and work, or the count if it is new. */
static int64_t index_of(const timed_operations *own, const listed_time *line)
{
    int64_t i = 0;
    while (i < own->count && !listed_same(&own->list[i].time, line)) i++;
    return i;
}

static void append(timed_operations *own, timed_operation x)
{
    if (own->count == own->capacity) {
        own->capacity = own->capacity ? 2 * own->capacity : 64;
        own->list = reallocate(own->list, own->capacity, sizeof x, "measured operations");
    }
    own->list[own->count++] = x;
}

static void add_to_step(timed_operations *own, const timed_operation *x, const op_note *n)
{
    double times = (double)note_count(n);
    for (int b = 0; b < BLOCKS; b++) own->pass[b] += times * x->pass[b];
    own->flops += times * op_flops(&n->op), own->bytes += times * operation_bytes(&n->op);
}

/* Times the operations that no earlier case has. A rank that takes no part does the work of another rank, so that all
 * ranks are busy. */
static void time_case(timed_operations *own, const bench_case *c, double seconds)
{
    slice s = slice_open(c, world_rank() % c->layout.ranks, seconds);
    s.passes = BLOCKS;
    for (int i = 0; i < s.work.notes; i++) {
        timed_operation x = timed_operation_of(&s, i);
        s.time[i].value[WITH_ALL][MEDIAN] = index_of(own, &x.time) < own->count ? 0.0 : (double)NAN;
    }
    slice_measure(&s);
    for (int i = 0; i < s.work.notes; i++) {
        timed_operation x = timed_operation_of(&s, i);
        int64_t at = index_of(own, &x.time);
        if (at == own->count) append(own, x);
        add_to_step(own, &own->list[at], &s.work.note[i]);
    }
    slice_close(&s);
}

static double median_of_ranks(const operation_table *t, int operation)
{
    const double *seconds = t->seconds + (int64_t)operation * t->ranks;
    double *known = allocate(t->ranks, sizeof *known, "sorting ranks");
    int count = 0;
    for (int r = 0; r < t->ranks; r++)
        if (!isnan(seconds[r])) known[count++] = seconds[r];
    double median = median_of(known, count);
    free(known);
    return median;
}

static void judge_ranks(operation_table *t, const timed_operations *own)
{
    double sums[BLOCKS + 2], *steps = allocate((int64_t)BLOCKS * t->ranks, sizeof *steps, "steps of ranks");
    memcpy(sums, own->pass, sizeof own->pass);
    sums[BLOCKS] = own->flops, sums[BLOCKS + 1] = own->bytes;
    double *all = world_gather(sums, sizeof sums);
    t->pace = allocate(t->ranks, sizeof *t->pace, "paces of ranks");
    for (int r = 0; all && r < t->ranks; r++) {
        const double *x = all + (int64_t)r * (BLOCKS + 2);
        for (int b = 0; b < BLOCKS; b++) steps[b * t->ranks + r] = x[b];
        t->pace[r] = (rank_pace){ .flops = x[BLOCKS], .bytes = x[BLOCKS + 1] };
    }
    if (all) find_paces(steps, BLOCKS, t->ranks, t->pace);
    free(steps);
    free(all);
}

operation_table operations_measure(const deck *d, double seconds)
{
    operation_table t = { .ranks = world_ranks() };
    timed_operations own = { .count = 0 };
    spread sum = { 0.0, 0.0, 0.0 };
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) time_case(&own, &d->item[i], seconds);
    judge_ranks(&t, &own);
    double most = (double)own.count;
    world_maximum(&most, 1);
    while (own.count < (int64_t)most) append(&own, (timed_operation){ .time.work = 0.0 });
    timed_operation *all = world_gather(own.list, (size_t)most * sizeof *own.list);
    if (all) add_ranks(&t, all, (int)most, &sum);
    for (int i = 0; i < t.operations; i++) t.listed[i].seconds = median_of_ranks(&t, i);
    t.p10 = sum.p10 / sum.mean, t.p90 = sum.p90 / sum.mean;
    free(own.list);
    free(all);
    return t;
}

void operations_free(operation_table *t)
{
    free(t->listed);
    free(t->seconds);
    free(t->pace);
}
