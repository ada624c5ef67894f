/* Agreement of a case with one rank that takes the case's choices of experts and FP8 scales: distances of losses per
 * sequence, gradients of the first and the last step, weights and norms, relative to the limits of
 * bench/check/check.h. Where the one rank would choose another expert, the choice must be within the calibrated margin
 * of its own logits; its own scales are treated alike. */
#pragma once
#include "bench/check/check.h"
#include "plan/catalogue/catalogue.h"
#include "trained.h"

/* Distances from one reference. where: of the first gradient. */
typedef struct {
    check_limits found;
    double norm;
    char where[48];
} spread;

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
    spread s = { .found = { .loss_first = loss_spread(x, want, 0),
                            .margin = want->flips.margin,
                            .scale_first = want->first_distance,
                            .scale_later = want->scales.distance } };
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
    snprintf(s.where, sizeof s.where, "%s", where);
    return s;
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

/* Returns the case on one rank with the layout's capacity groups. With a capacity, one sequence per microbatch. */
static inline bench_case alone_of(const bench_case *c, bool fp32)
{
    bench_case alone = single_rank_case(c, fp32);
    alone.microbatch = 1;
    alone.microbatches = c->global_batch;
    alone.choices_given = keeps_choices(c);
    return alone;
}

/* Starts to train the case of one rank with the choices and scales of x, on rank `on`. Collective work follows in
 * end_training, so that several ranks may train different cases at the same time. */
typedef struct {
    trainer t;
    mesh m;
    training how;
} following;
static inline void begin_following(following *f, trained *one, const bench_case *alone, const trained *x, int64_t steps,
                                   int on)
{
    f->how = (training){ .steps = steps,
                         .alone = true,
                         .alone_on = on,
                         .choices = x->choices ? x : NULL,
                         .scales = alone->precision == PRECISION_FP8 ? x : NULL };
    begin_training(one, &f->t, &f->m, alone, &f->how);
}

/* Prints the distances of the case and returns whether they are within the limits. Worst seen from the same precision
 * (commit fcecf56: listed and drawn layouts, `long`, 8 ranks, and 600 drawn layouts of up to 3):
 *                    loss: first, later    gradient: first, last   weights   norm      largest over its limit
 *   FP32: Llama            4.3e-8   3.5e-6       1.5e-6   4.8e-4        3.3e-3    2.2e-5    0.48
 *         Nemotron-4       2.8e-8   1.7e-6       1.5e-6   1.5e-4        8.6e-4    3.9e-6    0.15
 *         GPT-3            2.3e-8   1.4e-6       1.4e-6   6.4e-5        1.3e-3    1.7e-6    0.14
 *         Grok-1           1.7e-8   8.5e-7       1.2e-6   4.2e-4        4.3e-3    1.9e-6    0.43
 *   BF16: Llama            4.3e-4   1.2e-3       2.5e-2   4.6e-2        1.3e-1    2.8e-3    0.83
 *         Nemotron-4       5.0e-4   6.5e-4       2.4e-2   3.6e-2        1.7e-1    2.3e-3    0.79
 *         GPT-3            4.6e-4   7.1e-4       2.1e-2   7.2e-2        1.8e-1    2.4e-3    0.71
 *         Grok-1           3.7e-4   6.1e-4       2.1e-2   2.8e-2        1.2e-1    2.5e-3    0.70
 * layouts.c on an Intel Xeon without AMX (AVX2, AVX512_CORE_BF16 and all, 2 to 4 ranks, 31 layouts): at most 0.52. */
static inline bool spread_holds(const bench_case *c, const trained *want, const spread *s, bool from_fp32)
{
    const check_limits *x = &s->found;
    double of_limit = spread_in_limits(s, c, from_fp32);
    if (world_rank() > 0) return of_limit < 1.0;
    printf("#   from %s: loss %.1e %.1e  gradient %.1e %.1e (%s)  weights %.1e  norm %.1e  %.3f of the limits",
           from_fp32 ? "fp32" : precision_name(c->precision), x->loss_first, x->loss_later, x->gradient_first,
           x->gradient_fourth, s->where, x->weights, s->norm, of_limit);
    if (x->balance > 0.0) printf("; balance loss %.1e", x->balance);
    if (!from_fp32 && c->precision == PRECISION_FP8)
        printf("; along the gradient %.1e, scales differ by %.1e, %.1e", x->along, x->scale_first, x->scale_later);
    if (want->flips.flips) printf(", %lld choices differ, by %.1e", (long long)want->flips.flips, x->margin);
    printf("\n");
    return of_limit < 1.0;
}
