/* Totals before and after each sum over ranks. */
#include "bench/check/conservation.h"
#include "base/fail.h"
#include "base/memory.h"
#include "bench/check/replicas.h"
#include "machine/op/limits.h"
#include "machine/world.h"
#include <stdio.h>
#include <string.h>

conserved_steps *conserved_open(const trainer *t, int64_t steps)
{
    conserved_steps *k = allocate(1, sizeof *k, "conserved sums");
    k->slots = steps < CONSERVED_STEPS ? steps : CONSERVED_STEPS;
    k->length = trainer_totals_length(t);
    k->total = allocate(k->slots * k->length, sizeof *k->total, "the totals of steps");
    k->step = allocate(k->length, sizeof *k->step, "the totals of a step");
    return k;
}

void conserved_read(conserved_steps *k, const trainer *t)
{
    double *to = &k->total[k->steps % k->slots * k->length];
    trainer_totals(t, k->steps++, k->step);
    for (int64_t i = 0; i < k->length; i++) to[i] += k->step[i];
}

static void free_steps(conserved_steps *k)
{
    if (!k) return;
    free(k->total);
    free(k->step);
    free(k);
}

typedef struct {
    conservation *found;
    const trainer *t;
    conserved_steps *k;
    double comparisons, largest_squares; /* over all ranks; largest sum of squares of a slice */
} judging;
typedef struct {
    const bucket *b;
    bucket_sum which;
    conserved_sum sum;
    int64_t slots;
} judged_sum;

static int64_t slice_elements(const judged_sum *s, int64_t slice)
{
    return slice_begin(s->sum.elements, (int)slice + 1) - slice_begin(s->sum.elements, (int)slice);
}

/* After an all_reduce each rank compares its own result. After a reduce_scatter the group's first rank compares. */
static bool compares_here(const judged_sum *s, int64_t slice)
{
    return slice_elements(s, slice) > 0 && (!s->sum.scatters || s->sum.over->rank == 0);
}

static void count_comparisons(judging *j, const judged_sum *s)
{
    for (int i = 0; i < SUM_SLICES; i++) j->found->comparisons += compares_here(s, i) ? s->slots : 0;
}

/* Returns sqrt(V); the limit is signed_sum_limit times sqrt(V). The result G = g_1 + ... + g_n has an error e in each
 * element. The totals differ by D = sum of s e, with random signs s. If |e| <= b for each element, V = sum of b^2 is a
 * bound of the variance of D. The rounding of D itself, in double, is negligible.
 *
 * If the parts are added in FP32 and rounded once, b = h + (n - 1) 2^-24 sum of |g_r|. Here h is half a unit in the
 * last place of G: at most 2^-8 |G|, 2^-134 for subnormal BF16, and 0 for an FP32 result. Because (sum of |g_r|)^2 <= n
 * sum of g_r^2, the triangle inequality gives sqrt(V) <= 2^-8 |G| + 2^-134 sqrt(elements) + (n - 1) 2^-24 sqrt(n sum of
 * g_r^2), where |G| is the norm of G over the slice.
 *
 * If NCCL adds in a type of unit u, there are n - 1 independent roundings, each at most u times a partial sum over some
 * ranks. The squares of a partial sum add up to at most sum of G^2 if the ranks' gradients are similar, or to at most
 * sum of g_r^2 if they are unrelated. So V = (n - 1) u^2 max(sum of G^2, sum of g_r^2). */
static double limit_of(const judged_sum *s, double elements, double squares_before, double squares_after)
{
    bool bf16 = s->sum.type == BF16;
    double n = s->sum.over->size, unit = bf16 ? 0x1p-8 : 0x1p-24, subnormal = bf16 ? sqrt(elements) * 0x1p-134 : 0.0;
    if (!s->sum.in_fp32) return sqrt(n - 1) * (subnormal + unit * sqrt(fmax(squares_before, squares_after)));
    return subnormal + (n - 1) * 0x1p-24 * sqrt(n * squares_before) + (bf16 ? unit * sqrt(squares_after) : 0.0);
}

static int64_t steps_in_slot(const conserved_steps *k, int64_t slot) { return (k->steps - slot - 1) / k->slots + 1; }

static void add_failure(const judging *j, const judged_sum *s, int64_t i, const double total[SUM_MOMENTS], double limit)
{
    int64_t slot = i / SUM_SLICES;
    conservation *c = j->found;
    if (c->failed++) return;
    snprintf(
        c->sentence, sizeof c->sentence,
        "step %lld%s, %.48s, sum over %d %s ranks from rank %d, slice %d of %d: %.7g before the sum, %.7g after it, "
        "limit of the difference %.3g",
        (long long)slot, steps_in_slot(j->k, slot) > 1 ? " or a later one" : "",
        j->t->stage.params.row[s->b->first_param].name, s->sum.over->size, s->sum.over->axis, s->sum.over->first,
        (int)(i % SUM_SLICES), SUM_SLICES, total[BEFORE_SUM], total[AFTER_SUM], limit);
}

static void compare(judging *j, const judged_sum *s, int64_t i, const slice_totals *before, const slice_totals *after)
{
    int64_t owners = s->sum.scatters ? s->sum.over->size : 1;
    double elements = (double)(slice_elements(s, i % SUM_SLICES) * owners * steps_in_slot(j->k, i / SUM_SLICES));
    double limit =
        limit_of(s, elements, before->of[SLICE_SQUARES], after->of[SLICE_SQUARES]) * signed_sum_limit(j->comparisons);
    const double total[SUM_MOMENTS] = { before->of[SLICE_SIGNED], after->of[SLICE_SIGNED] };
    double difference = fabs(total[AFTER_SUM] - total[BEFORE_SUM]), ratio = difference > 0.0 ? difference / limit : 0.0;
    bool passed = difference <= limit && isfinite(limit);
    j->largest_squares = fmax(j->largest_squares, before->of[SLICE_SQUARES]);
    if (!passed && !(isfinite(ratio) && ratio > 1.0)) ratio = (double)INFINITY;
    if (!passed) add_failure(j, s, i, total, limit);
    j->found->worst = fmax(j->found->worst, ratio);
}

/* Sums the totals [moments, slots, slices] over the group. After an all_reduce every rank has the whole result, so only
 * the totals before the sum are added up. */
static void judge_sum(judging *j, const judged_sum *s)
{
    int64_t n = s->slots * SUM_SLICES;
    slice_totals *x = allocate(SUM_MOMENTS * n, sizeof *x, "comparing the sums of steps");
    for (int64_t i = 0; i < SUM_MOMENTS * s->slots; i++) {
        sum_moment when = (sum_moment)(i / s->slots);
        memcpy(&x[i * SUM_SLICES],
               &j->k->total[i % s->slots * j->k->length + conserved_offset(j->t, s->b, s->which, when)],
               SUM_SLICES * sizeof *x);
    }
    world_reduce_group(s->sum.over, x->of, (s->sum.scatters ? 2 : 1) * n * SLICE_TOTALS, false);
    for (int64_t i = 0; i < n; i++)
        if (compares_here(s, i % SUM_SLICES)) compare(j, s, i, &x[i], &x[n + i]);
    free(x);
}

/* All ranks of a group belong to one stage, so they have the same sums in the same order. */
static void for_each_sum(judging *j, void (*f)(judging *j, const judged_sum *s))
{
    const param_table *p = &j->t->stage.params;
    for (const bucket *b = p->buckets; b < p->buckets + p->bucket_count + (p->head != NULL); b++)
        for (int which = 0; which < BUCKET_SUMS; which++) {
            judged_sum s = { .b = b, .which = (bucket_sum)which, .sum = conserved_sum_of(j->t, b, (bucket_sum)which) };
            s.slots = j->k->steps < j->k->slots ? j->k->steps : j->k->slots;
            if (!s.sum.over) continue;
            f(j, &s);
        }
}

/* Fails if all totals are zero although the gradient norm is not. A separate operation computes the norm, so the kernel
 * of the totals did nothing. Collective over the world. */
static void fail_if_all_zero(judging *j, double norm)
{
    conservation *c = j->found;
    world_maximum(&j->largest_squares, 1);
    if (j->comparisons == 0.0 || j->largest_squares != 0.0 || norm == 0.0 || !j->t || c->failed++) return;
    c->worst = (double)INFINITY;
    snprintf(c->sentence, sizeof c->sentence, "all totals are zero, but the gradient norm reaches %.3g", norm);
}

conservation conserved_judge(conserved_steps *k, trainer *t, double norm)
{
    conservation c = { .comparisons = 0 };
    judging j = { .found = &c, .t = t, .k = k };
    if (t) for_each_sum(&j, count_comparisons);
    j.comparisons = (double)c.comparisons;
    world_sum(&j.comparisons, 1);
    if (t) for_each_sum(&j, judge_sum);
    fail_if_all_zero(&j, norm);
    if (t) replicas_compare(&c, t);
    free_steps(k);
    return c;
}
