/* Totals before and after each sum over ranks. */
#include "bench/conservation.h"
#include "base/fail.h"
#include "bench/replicas.h"
#include "machine/world.h"
#include <stdio.h>
#include <stdlib.h>

/* One false alarm in so many runs. */
static const double FALSE_ALARMS = 1e-6;

/* A result G = g_1 + ... + g_n is off by some e at each place, and the totals differ by D = sum of s e, s being random
 * signs of which e knows nothing. For |e| <= b Hoeffding (1963, theorem 2) gives P(|D| >= t) <= 2 exp(-t^2 / (2 V)), V
 * = sum of b^2. With N comparisons t = sqrt(2 ln(2 N / 1e-6) V) is passed by chance once in a million runs. Adding up D
 * itself, in double, costs nothing beside it.
 *
 * Added in FP32 and rounded once: b = h + (n - 1) 2^-24 sum of |g_r|, where h is half a unit in the last place of G, at
 * most 2^-8 |G| or, of subnormal BF16, 2^-134; of an FP32 result there is no h. (sum of |g_r|)^2 <= n sum of g_r^2.
 * Roots of sums of squares add up at most: sqrt(V) <= 2^-8 |G| + 2^-134 sqrt(elements) + (n - 1) 2^-24 sqrt(n sum of
 * g_r^2), where |G| is the root of the sum of squares over the slice.
 *
 * Added by NCCL in a type of unit u: n - 1 roundings, each of at most u times a partial sum of some of the ranks. Over
 * a slice the partial sum's squares add up to no more than those of G, where ranks have much in common, or those of all
 * g_r, where they have nothing; and roundings of different additions are independent: V = (n - 1) u^2 max(sum of G^2,
 * sum of g_r^2). */
double conserved_limit(const conserved_slice *s, double comparisons)
{
    bool bf16 = s->type == BF16;
    double n = s->ranks, unit = bf16 ? 0x1p-8 : 0x1p-24, root = bf16 ? sqrt(s->elements) * 0x1p-134 : 0.0;
    if (s->in_fp32) root += (n - 1) * 0x1p-24 * sqrt(n * s->squares_before);
    if (s->in_fp32 && bf16) root += unit * sqrt(s->squares_after);
    if (!s->in_fp32) root = sqrt(n - 1) * (root + unit * sqrt(fmax(s->squares_before, s->squares_after)));
    return sqrt(2.0 * log(2.0 * comparisons / FALSE_ALARMS)) * root;
}

conserved_steps *conserved_open(const trainer *t, int64_t steps)
{
    conserved_steps *k = calloc(1, sizeof *k);
    if (k) k->slots = steps < CONSERVED_STEPS ? steps : CONSERVED_STEPS, k->length = trainer_totals_length(t);
    if (k) k->total = calloc((size_t)(k->slots * k->length) + 1, sizeof *k->total);
    if (k) k->step = calloc((size_t)k->length + 1, sizeof *k->step);
    if (!k || !k->total || !k->step) FAIL("no memory for the totals of %lld steps", (long long)steps);
    return k;
}

void conserved_read(conserved_steps *k, const trainer *t)
{
    double *to = &k->total[k->steps % k->slots * k->length];
    trainer_totals(t, k->steps++, k->step);
    for (int64_t i = 0; i < k->length; i++) to[i] += k->step[i];
}

static void close(conserved_steps *k)
{
    if (!k) return;
    free(k->total);
    free(k->step);
    free(k);
}

/* One sum of one bucket: what its ranks have, of each slot and slice. */
typedef struct {
    double before, squares_before, after, squares_after;
} slice_sums;
typedef struct {
    case_result *r;
    const trainer *t;
    conserved_steps *k;
    double comparisons;
} judging;
typedef struct {
    const bucket *b;
    bucket_sum which;
    conserved_sum of;
    int64_t slots;
} judged_sum;

static int64_t slice_elements(const judged_sum *s, int slice)
{
    return slice_begin(s->of.elements, slice + 1) - slice_begin(s->of.elements, slice);
}

/* Of an all_reduce every rank compares what it has; of what is scattered one compares for all. */
static bool compares(const judged_sum *s) { return !s->of.scatters || s->of.over->rank == 0; }

static void count(judging *j, const judged_sum *s)
{
    for (int i = 0; i < SUM_SLICES; i++)
        if (compares(s) && slice_elements(s, i)) j->r->conserved.comparisons += s->slots;
}

static slice_sums *collect(const judging *j, const judged_sum *s)
{
    slice_sums *x = calloc((size_t)s->slots * SUM_SLICES + 1, sizeof *x);
    if (!x) FAIL("no memory to compare sums of %lld steps", (long long)s->slots);
    for (int64_t i = 0; i < s->slots * SUM_SLICES; i++) {
        const double *step = &j->k->total[i / SUM_SLICES * j->k->length], *own[SUM_MOMENTS];
        for (int when = 0; when < SUM_MOMENTS; when++)
            own[when] = &step[conserved_at(j->t, s->b, s->which, (sum_moment)when) + i % SUM_SLICES * SLICE_TOTALS];
        x[i] = (slice_sums){ own[0][SLICE_SIGNED], own[0][SLICE_SQUARES], own[1][SLICE_SIGNED], own[1][SLICE_SQUARES] };
    }
    return x;
}

/* After an all_reduce each rank's own results count. */
static void add_ranks(const judged_sum *s, slice_sums *x)
{
    int64_t n = s->slots * SUM_SLICES;
    double *own = calloc(2 * (size_t)n + 1, sizeof *own);
    if (!own) FAIL("no memory to compare sums of %lld steps", (long long)s->slots);
    for (int64_t i = 0; i < n; i++) own[2 * i] = x[i].after, own[2 * i + 1] = x[i].squares_after;
    world_reduce_group(s->of.over, &x->before, n * (int64_t)(sizeof *x / sizeof(double)), false);
    for (int64_t i = 0; i < n && !s->of.scatters; i++) x[i].after = own[2 * i], x[i].squares_after = own[2 * i + 1];
    free(own);
}

/* Steps whose totals lie in a slot. */
static int64_t steps_in(const conserved_steps *k, int64_t slot) { return (k->steps - slot - 1) / k->slots + 1; }

/* i: slot and slice. */
static void say_failure(const judging *j, const judged_sum *s, int64_t i, slice_sums x, double limit)
{
    int64_t slot = i / SUM_SLICES;
    conservation *c = &j->r->conserved;
    if (c->failed++) return;
    snprintf(
        c->sentence, sizeof c->sentence,
        "step %lld%s, %.48s, sum over %d %s ranks from rank %d, slice %d of %d: %.7g before the sum, %.7g after it, "
        "limit of the difference %.3g",
        (long long)slot, steps_in(j->k, slot) > 1 ? " or a later one" : "",
        j->t->stage.params.row[s->b->first_param].name, s->of.over->size, s->of.over->axis, s->of.over->first,
        (int)(i % SUM_SLICES), SUM_SLICES, x.before, x.after, limit);
}

static void compare(judging *j, const judged_sum *s, int64_t i, slice_sums x)
{
    int64_t elements = slice_elements(s, (int)(i % SUM_SLICES));
    int64_t owners = s->of.scatters ? s->of.over->size : 1;
    conserved_slice of = { s->of.over->size, s->of.in_fp32,
                           s->of.type,       (double)(elements * owners * steps_in(j->k, i / SUM_SLICES)),
                           x.squares_before, x.squares_after };
    double limit = conserved_limit(&of, j->comparisons), difference = fabs(x.after - x.before);
    bool passed = difference <= limit && isfinite(limit);
    double ratio = difference == 0.0 ? 0.0 : difference / limit;
    if (!passed && !(isfinite(ratio) && ratio > 1.0)) ratio = (double)INFINITY;
    if (!passed) say_failure(j, s, i, x, limit);
    j->r->conserved.worst = fmax(j->r->conserved.worst, ratio);
}

static void judge_sum(judging *j, const judged_sum *s)
{
    slice_sums *x = collect(j, s);
    add_ranks(s, x);
    for (int64_t i = 0; i < s->slots * SUM_SLICES && compares(s); i++)
        if (slice_elements(s, (int)(i % SUM_SLICES))) compare(j, s, i, x[i]);
    free(x);
}

/* Every rank of a group goes through its sums in the same order: they are of one stage. */
static void each_sum(judging *j, void (*f)(judging *j, const judged_sum *s))
{
    const param_table *p = &j->t->stage.params;
    for (const bucket *b = p->buckets; b < p->buckets + p->bucket_count + (p->head != NULL); b++)
        for (int which = 0; which < BUCKET_SUMS; which++) {
            judged_sum s = { .b = b, .which = (bucket_sum)which, .of = conserved_sum_of(j->t, b, (bucket_sum)which) };
            s.slots = j->k->steps < j->k->slots ? j->k->steps : j->k->slots;
            if (!s.of.over) continue;
            f(j, &s);
        }
}

void conserved_judge(case_result *r, trainer *t)
{
    conservation *c = &r->conserved;
    judging j = { .r = r, .t = t, .k = r->sums };
    if (t) each_sum(&j, count);
    double counts[2] = { (double)c->comparisons, 0.0 };
    world_sum(counts, 1);
    j.comparisons = counts[0];
    if (t) each_sum(&j, judge_sum);
    replicas_compare(r, t);
    counts[0] = (double)c->failed;
    world_sum(counts, 1);
    world_maximum(&c->worst, 1);
    world_hear(c->sentence, sizeof c->sentence);
    c->comparisons = (int64_t)j.comparisons;
    c->failed = (int64_t)counts[0];
    close(r->sums);
    r->sums = NULL;
}
