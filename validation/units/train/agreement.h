/* Agreement of a case with one rank: distances of losses per sequence, gradients of the first and the last step,
 * weights and norms, relative to the limits of bench/check/check.h. Every choice of experts must follow the rule. If a
 * choice differs from the one rank's, the one rank is trained again with the case's choices, which must be within the
 * calibrated margin of its own logits. FP8 scales are treated alike. */
#pragma once
#include "bench/check/check.h"
#include "plan/catalogue/catalogue.h"
#include "trained.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Distances from one reference. where: of the first gradient. Number of choices that differ. */
typedef struct {
    check_limits found;
    double norm;
    char where[48];
    int64_t flips;
} spread;
typedef struct {
    spread from[2];
} spreads;
static const spreads no_spread = { { { .norm = 0.0 }, { .norm = 0.0 } } };

/* Settings that a small case takes from check models (plan/model/shapes.c), because their limits apply: the std of a
 * tied table (with 1, logits spread by sqrt(hidden), and their BF16 rounding alone moves a loss by 1e-3), few learned
 * positions, and recorded router choices. */
static inline void init_as_checked(bench_case *c)
{
    if (c->model.experts) c->size = SIZE_CHECK;
    *c = with_few_positions(*c);
    if (!c->model.tied_embedding) return;
    c->model.init = INIT_STD;
    c->model.init_std = 0.81 / sqrt((double)c->model.hidden);
    c->model.output_init_std = c->model.init_std / sqrt(2.0 * (double)c->model.layers);
}

static inline double relative(double got, double want) { return fabs(got / want - 1.0); }

static inline double loss_spread(const trained *x, const trained *want, int64_t step)
{
    double worst = relative(x->loss[step], want->loss[step]);
    for (int64_t i = 0; i < want->sequences; i++)
        worst = worst_of(worst, relative(x->sequence_loss[step][i], want->sequence_loss[step][i]));
    return worst;
}

static inline spread spread_of(const trained *x, const trained *want)
{
    const char *where = "", *name = "";
    spread s = { .found.loss_first = loss_spread(x, want, 0), .flips = want->flips.flips };
    s.found.margin = want->flips.margin;
    for (int64_t step = 0; step < want->steps; step++) {
        if (want->balance[step] > 0.0)
            s.found.balance = worst_of(s.found.balance, relative(x->balance[step], want->balance[step]));
        s.norm = worst_of(s.norm, relative(x->norm[step], want->norm[step]));
        if (step > 0) s.found.loss_later = worst_of(s.found.loss_later, loss_spread(x, want, step));
    }
    s.found.gradient_first = worst_ratio(want, x->gradient, want->gradient, &where);
    s.found.gradient_fourth = worst_ratio(want, x->last_gradient, want->last_gradient, &name);
    s.found.along = worst_along(want, x->gradient, want->gradient);
    s.found.weights = worst_change(want, x->weight, want->weight, want->first_weight, &name);
    s.found.scale_first = want->first_distance;
    s.found.scale_later = want->scales.distance;
    snprintf(s.where, sizeof s.where, "%s", where);
    return s;
}

static inline void raise_spread(spread *to, const spread *s)
{
    if (s->found.gradient_first > to->found.gradient_first) memcpy(to->where, s->where, sizeof to->where);
    for (int m = 0; m < CHECK_MEASURES; m++) to->found.of[m] = worst_of(to->found.of[m], s->found.of[m]);
    to->norm = worst_of(to->norm, s->norm);
    to->flips += s->flips;
}

/* Returns the largest ratio of spread to limit. Weights without masters are not compared with FP32
 * (bench/check/check.c). The one rank need not round like tensor ranks: the limits allow for GPUs. */
static inline double spread_in_limits(const spread *s, const bench_case *c, bool against_fp32)
{
    storage_rule kept = storage_of(c);
    bool masters = kept.weight == KEPT_FP32 || kept.master == KEPT_FP32;
    bench_case on_gpu = *c;
    on_gpu.backend = BACKEND_CUDA;
    check_limits limit = check_limits_of(&on_gpu, against_fp32);
    double worst = s->norm / limit.norm_fourth;
    if (limit.scale_first > 0.0 && c->model.experts) limit.scale_first = routed_alone;
    for (int m = 0; m < CHECK_MEASURES; m++)
        if (limit.of[m] > 0.0 && (m != CHECK_WEIGHTS || !against_fp32 || masters))
            worst = worst_of(worst, s->found.of[m] / limit.of[m]);
    return worst;
}

/* ---- one rank ---- */

/* References of the same precision and, if that is not FP32, of FP32. */
typedef struct {
    int count;
    bench_case given[2];
    trained of[2];
} references;

/* alone: one rank, one sequence per microbatch. */
static inline void references_train(references *r, const bench_case *alone, int64_t steps)
{
    r->count = alone->precision == PRECISION_FP32 ? 1 : 2;
    for (int i = 0; i < r->count; i++) {
        r->given[i] = *alone;
        if (i == 1) r->given[i].precision = PRECISION_FP32;
        train_case(&r->of[i], &r->given[i], &(training){ .steps = steps });
    }
}

static inline void references_close(references *r)
{
    for (int i = 0; i < r->count; i++) trained_close(&r->of[i]);
}

/* Returns the case on one rank with the layout's capacity groups. With a capacity, one sequence per microbatch. */
static inline bench_case alone_of(const bench_case *c)
{
    bench_case alone = single_rank_case(c, false);
    alone.microbatch = 1;
    alone.microbatches = c->global_batch;
    return alone;
}

/* Compares choices, and scales if `one` has any. */
static inline bool same_decisions(const trained *x, const trained *one)
{
    size_t choices = x->choices ? (size_t)(x->steps * x->sequences * x->of_sequence) : 0;
    return !(choices && memcmp(x->choices, one->choices, choices * sizeof *x->choices)) &&
           !memcmp(x->scale, one->scale, (size_t)(one->steps * one->tensors) * sizeof *x->scale);
}

/* Trains one rank with the choices and the scales of x. */
static inline void train_following(trained *one, const bench_case *alone, const trained *x)
{
    bench_case c = *alone;
    c.choices_given = x->choices != NULL;
    train_case(one, &c,
               &(training){ .steps = x->steps,
                            .choices = x->choices ? x : NULL,
                            .scales = c.precision == PRECISION_FP8 ? x : NULL });
}

static inline void compare_with(spreads *worst, int i, const trained *x, const references *r)
{
    trained following;
    bool alike = same_decisions(x, &r->of[i]);
    if (!alike) train_following(&following, &r->given[i], x);
    const trained *want = alike ? &r->of[i] : &following;
    spread s = spread_of(x, want);
    raise_spread(&worst->from[i], &s);
    for (int64_t step = 0; step < x->steps; step++) assert_true(x->dropped[step] == want->dropped[step]);
    if (!alike) trained_close(&following);
}

/* Asserts properties of every run that need no reference. */
static inline void hold_alone(const trained *x)
{
    if (x->hazard[0]) fprintf(stderr, "# rank %d: %s\n", world_rank(), x->hazard);
    assert_true(x->hazards == 0.0);
    assert_true(x->whole_weight_errors == 0.0);
    assert_true(losses_are_positive(x));
}

/* Trains the case and updates the largest distances in `worst`. */
static inline void compare_case(spreads *worst, const bench_case *c, training how, const references *r)
{
    trained x;
    how.steps = r->of[0].steps;
    train_case(&x, c, &how);
    for (int i = 0; i < r->count; i++) compare_with(worst, i, &x, r);
    hold_alone(&x);
    trained_close(&x);
}

/* ---- output ---- */

static inline void print_spread(const bench_case *c, const char *what, const spreads *all, int i)
{
    char title[LAYOUT_TITLE];
    const spread *s = &all->from[i];
    const check_limits *x = &s->found;
    if (world_rank() > 0) return;
    printf("# %s%s%s: loss %.1e %.1e  gradient %.1e %.1e (%s)  weights %.1e  norm %.1e  %.3f of the limits",
           layout_title(title, c), what, i ? ", from fp32" : "", x->loss_first, x->loss_later, x->gradient_first,
           x->gradient_fourth, s->where, x->weights, s->norm, spread_in_limits(s, c, i == 1));
    if (x->balance > 0.0) printf("; balance loss %.1e", x->balance);
    if (i == 0 && c->precision == PRECISION_FP8)
        printf("; along the gradient %.1e, scales differ by %.1e, %.1e", x->along, x->scale_first, x->scale_later);
    if (s->flips) printf(", %lld choices differ, by %.1e", (long long)s->flips, x->margin);
    printf("\n");
    fflush(stdout);
}

/* Prints the distances of the case, or of several that differ in `what`, and holds them to the limits. Worst seen from
 * the same precision (commit fcecf56: listed and drawn layouts, `long`, 8 ranks, and 600
 * drawn layouts of up to 3):   loss: first, later    gradient: first, last   weights   norm      largest over its limit
 *   FP32: Llama            4.3e-8   3.5e-6       1.5e-6   4.8e-4        3.3e-3    2.2e-5    0.48
 *         Nemotron-4       2.8e-8   1.7e-6       1.5e-6   1.5e-4        8.6e-4    3.9e-6    0.15
 *         GPT-3            2.3e-8   1.4e-6       1.4e-6   6.4e-5        1.3e-3    1.7e-6    0.14
 *         Grok-1           1.7e-8   8.5e-7       1.2e-6   4.2e-4        4.3e-3    1.9e-6    0.43
 *   BF16: Llama            4.3e-4   1.2e-3       2.5e-2   4.6e-2        1.3e-1    2.8e-3    0.83
 *         Nemotron-4       5.0e-4   6.5e-4       2.4e-2   3.6e-2        1.7e-1    2.3e-3    0.79
 *         GPT-3            4.6e-4   7.1e-4       2.1e-2   7.2e-2        1.8e-1    2.4e-3    0.71
 *         Grok-1           3.7e-4   6.1e-4       2.1e-2   2.8e-2        1.2e-1    2.5e-3    0.70 */
static inline void judge(const bench_case *c, const char *what, const spreads *all, int count)
{
    for (int i = 0; i < count; i++) print_spread(c, what, all, i);
    for (int i = 0; i < count; i++) assert_true(spread_in_limits(&all->from[i], c, i == 1) < 1.0);
}
