/* Operations of slices on all ranks. */
#include "bench/calibrate/operations.h"
#include "base/memory.h"
#include "bench/health/statistics.h"
#include "bench/project/listed.h"
#include "bench/slice/slice.h"
#include "machine/world.h"
#include <math.h>
#include <string.h>

/* What one rank tells of one operation. */
typedef struct {
    listed_time of; /* its own mean */
    double p10, p90;
} own_time;

static own_time own_time_of(const slice *s, int i)
{
    const double *of = s->time[i].of[WITH_ALL];
    own_time x = { .of = { .work = operation_work(&s->work.note[i].op), .seconds = of[MEAN] },
                   .p10 = of[P10],
                   .p90 = of[P90] };
    operation_key(&s->work.note[i].op, x.of.key);
    return x;
}

static int row_of(operation_table *t, const listed_time *x)
{
    int i = 0;
    while (i < t->operations && strcmp(t->of[i].key, x->key) != 0) i++;
    if (i < t->operations) return i;
    t->of = reallocate(t->of, ++t->operations, sizeof *t->of, "measured operations");
    t->seconds = reallocate(t->seconds, (int64_t)t->operations * t->ranks, sizeof *t->seconds, "measured operations");
    t->of[i] = *x;
    for (int r = 0; r < t->ranks; r++) t->seconds[i * t->ranks + r] = (double)NAN;
    return i;
}

/* Sums of quantiles and of means, of all ranks' operations. */
typedef struct {
    double p10, mean, p90;
} spread;

/* all: [ranks, most]; unused entries have no key. */
static void add_ranks(operation_table *t, const own_time *all, int most, spread *sum)
{
    for (int r = 0; r < t->ranks; r++)
        for (const own_time *x = all + (int64_t)r * most; x < all + (int64_t)(r + 1) * most; x++) {
            if (!x->of.key[0]) continue;
            int row = row_of(t, &x->of);
            t->seconds[row * t->ranks + r] = x->of.seconds;
            sum->p10 += x->p10, sum->mean += x->of.seconds, sum->p90 += x->p90;
        }
}

/* What this rank has timed so far, of all cases. */
typedef struct {
    own_time *list;
    int64_t count, capacity;
} own_times;

static bool is_known(const own_times *own, const char *key)
{
    for (int64_t i = 0; i < own->count; i++)
        if (strcmp(own->list[i].of.key, key) == 0) return true;
    return false;
}

static void keep(own_times *own, own_time x)
{
    if (own->count == own->capacity) {
        own->capacity = own->capacity ? 2 * own->capacity : 64;
        own->list = reallocate(own->list, own->capacity, sizeof x, "measured operations");
    }
    own->list[own->count++] = x;
}

/* Times those that no case before has. */
static void measure_case(own_times *own, const bench_case *c, double seconds)
{
    slice s = slice_open(c, world_rank() % c->layout.ranks, seconds); /* one more for a rank that takes no part */
    for (int i = 0; i < s.work.notes; i++) {
        bool known = is_known(own, own_time_of(&s, i).of.key);
        s.time[i].of[WITH_ALL][MEDIAN] = known ? 0.0 : (double)NAN;
    }
    slice_measure(&s);
    for (int i = 0; i < s.work.notes; i++) {
        own_time x = own_time_of(&s, i);
        if (!is_known(own, x.of.key)) keep(own, x);
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

operation_table operations_measure(const deck *d, double seconds)
{
    operation_table t = { .ranks = world_ranks() };
    own_times own = { .count = 0 };
    spread sum = { 0.0, 0.0, 0.0 };
    for (int64_t i = 0; i < d->cases; i += d->item[i].repeats) measure_case(&own, &d->item[i], seconds);
    double most = (double)own.count;
    world_maximum(&most, 1);
    while (own.count < (int64_t)most) keep(&own, (own_time){ .p10 = 0.0 });
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
}
