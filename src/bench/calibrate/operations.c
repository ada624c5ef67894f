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
    listed_time of;      /* seconds: mean of the passes */
    double pass[BLOCKS]; /* mean of each pass; a pass goes through all operations, so a disturbance spreads over them */
} own_time;

/* Operations that this rank has timed so far. pass, flops, bytes: sums over one step of each case. */
typedef struct {
    own_time *list;
    int64_t count, capacity;
    double pass[BLOCKS], flops, bytes;
} own_times;

static own_time own_time_of(const slice *s, int i)
{
    own_time x;
    memcpy(x.pass, s->time[i].pass, sizeof x.pass);
    x.of = listed_of(&s->work.note[i].op, mean_of_last(x.pass, BLOCKS, BLOCKS));
    return x;
}

static int row_of(operation_table *t, const listed_time *x)
{
    int i = 0;
    while (i < t->operations && !listed_same(&t->of[i], x)) i++;
    if (i < t->operations) return i;
    t->of = reallocate(t->of, ++t->operations, sizeof *t->of, "measured operations");
    t->seconds = reallocate(t->seconds, (int64_t)t->operations * t->ranks, sizeof *t->seconds, "measured operations");
    t->of[i] = *x;
    for (int r = 0; r < t->ranks; r++) t->seconds[i * t->ranks + r] = (double)NAN;
    return i;
}

/* Sums over the operations of all ranks. */
typedef struct {
    double p10, mean, p90;
} spread;

static void add_spread(spread *sum, const own_time *x)
{
    double sorted[BLOCKS];
    memcpy(sorted, x->pass, sizeof sorted);
    sort_numbers(sorted, BLOCKS);
    sum->p10 += quantile(sorted, BLOCKS, 0.1), sum->p90 += quantile(sorted, BLOCKS, 0.9), sum->mean += x->of.seconds;
}

/* all: [ranks, most]; unused entries have no key. */
static void add_ranks(operation_table *t, const own_time *all, int most, spread *sum)
{
    for (int r = 0; r < t->ranks; r++)
        for (const own_time *x = all + (int64_t)r * most; x < all + (int64_t)(r + 1) * most; x++) {
            if (!x->of.key[0]) continue;
            int row = row_of(t, &x->of);
            t->seconds[row * t->ranks + r] = x->of.seconds;
            add_spread(sum, x);
        }
}

/* Returns the index of the operation with this key and work, or the count if it is new. */
static int64_t index_of(const own_times *own, const listed_time *line)
{
    int64_t i = 0;
    while (i < own->count && !listed_same(&own->list[i].of, line)) i++;
    return i;
}

static void keep(own_times *own, own_time x)
{
    if (own->count == own->capacity) {
        own->capacity = own->capacity ? 2 * own->capacity : 64;
        own->list = reallocate(own->list, own->capacity, sizeof x, "measured operations");
    }
    own->list[own->count++] = x;
}

static void add_to_step(own_times *own, const own_time *x, const op_note *n)
{
    double times = (double)note_count(n);
    for (int b = 0; b < BLOCKS; b++) own->pass[b] += times * x->pass[b];
    own->flops += times * op_flops(&n->op), own->bytes += times * operation_bytes(&n->op);
}

/* Times the operations that no earlier case has. A rank that takes no part does the work of another rank, so that all
 * ranks are busy. */
static void measure_case(own_times *own, const bench_case *c, double seconds)
{
    slice s = slice_open(c, world_rank() % c->layout.ranks, seconds);
    s.passes = BLOCKS;
    for (int i = 0; i < s.work.notes; i++) {
        own_time x = own_time_of(&s, i);
        s.time[i].of[WITH_ALL][MEDIAN] = index_of(own, &x.of) < own->count ? 0.0 : (double)NAN;
    }
    slice_measure(&s);
    for (int i = 0; i < s.work.notes; i++) {
        own_time x = own_time_of(&s, i);
        int64_t at = index_of(own, &x.of);
        if (at == own->count) keep(own, x);
        add_to_step(own, &own->list[at], &s.work.note[i]);
    }
    slice_close(&s);
}

static double median_of_ranks(const operation_table *t, int operation)
{
    const double *of = t->seconds + (int64_t)operation * t->ranks;
    double *known = allocate(t->ranks, sizeof *known, "sorting ranks");
    int count = 0;
    for (int r = 0; r < t->ranks; r++)
        if (!isnan(of[r])) known[count++] = of[r];
    double median = median_of(known, count);
    free(known);
    return median;
}

static void judge_ranks(operation_table *t, const own_times *own)
{
    double mine[BLOCKS + 2], *steps = allocate((int64_t)BLOCKS * t->ranks, sizeof *steps, "steps of ranks");
    memcpy(mine, own->pass, sizeof own->pass);
    mine[BLOCKS] = own->flops, mine[BLOCKS + 1] = own->bytes;
    double *all = world_gather(mine, sizeof mine);
    t->pace = allocate(t->ranks, sizeof *t->pace, "paces of ranks");
    for (int r = 0; all && r < t->ranks; r++) {
        const double *of = all + (int64_t)r * (BLOCKS + 2);
        for (int b = 0; b < BLOCKS; b++) steps[b * t->ranks + r] = of[b];
        t->pace[r] = (rank_pace){ .flops = of[BLOCKS], .bytes = of[BLOCKS + 1] };
    }
    if (all) find_paces(steps, BLOCKS, t->ranks, t->pace);
    free(steps);
    free(all);
}

operation_table operations_measure(const deck *d, double seconds)
{
    operation_table t = { .ranks = world_ranks() };
    own_times own = { .count = 0 };
    spread sum = { 0.0, 0.0, 0.0 };
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) measure_case(&own, &d->item[i], seconds);
    judge_ranks(&t, &own);
    double most = (double)own.count;
    world_maximum(&most, 1);
    while (own.count < (int64_t)most) keep(&own, (own_time){ .of.work = 0.0 });
    own_time *all = world_gather(own.list, (size_t)most * sizeof *own.list);
    if (all) add_ranks(&t, all, (int)most, &sum);
    for (int i = 0; i < t.operations; i++) t.of[i].seconds = median_of_ranks(&t, i);
    t.least = sum.p10 / sum.mean, t.most = sum.p90 / sum.mean;
    free(own.list);
    free(all);
    return t;
}

void operations_free(operation_table *t)
{
    free(t->of);
    free(t->seconds);
    free(t->pace);
}
