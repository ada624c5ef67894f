/* The check model on the mesh, compared with its references. */
#include "bench/check.h"
#include "base/clock.h"
#include "bench/compare.h"
#include "bench/strike.h"
#include "machine/world.h"
#include <stdio.h>
#include <string.h>

/* Loss: relative, per sequence and of the step as reported. Gradients: r (compare.h); the reported norm has their limits.
 * Weights: r with the change of four steps as reference. Calibrated on the host, on 240 healthy checks (validation/units/
 * calibration.c: 3 workloads, 2 precisions, 10 layouts of 1 to 8 ranks, 4 seeds with another sharding, recompute mask and token
 * stream each), whose largest values stand below the limits, and on the planted faults of validation/faults: the weakest that
 * the check caught was 90 times the limit in FP32, in BF16 1.4 times (one of the copies of keys that the ring of attention passes on
 * was stale), or 2.2 times with a single element flipped (of gathered weights a single wrong element is the limit itself). */
check_limits check_limits_of(case_precision precision, bool against_fp32)
{
    /*                                               loss: first, later    gradient: first, fourth    weights */
    static const check_limits fp32 =              {  1e-6,    2e-5,    1e-5,   1e-3,    1e-2 };
    /* healthy, at most                            1.1e-8   8.0e-7   1.7e-6  2.3e-4   3.4e-3 */
    static const check_limits bf16 =              {  1e-3,    2e-3,    3e-2, 1.5e-1,    3e-1 };
    /* healthy, at most                            5.3e-5   5.1e-4   9.5e-3  6.6e-2   1.0e-1 */
    static const check_limits bf16_against_fp32 = {  1e-3,    4e-3,    5e-2,   2e-1,    4e-1 };
    /* healthy, at most                            4.6e-4   1.4e-3   2.1e-2  8.5e-2   1.8e-1 */
    return precision == PRECISION_FP32 ? fp32 : against_fp32 ? bf16_against_fp32 : bf16;
}

void check_open(check *k, const bench_case *c)
{
    memset(k, 0, sizeof *k);
    k->given = check_case(c);
    k->references = k->given.precision == PRECISION_FP32 ? 1 : 2;
    for (int i = 0; i < k->references; i++) reference_compute(&k->reference[i], &k->given, i == 1);
    mesh_open(&k->mesh, &k->given.layout, world_rank(), true);
}

void check_close(check *k)
{
    for (int i = 0; i < k->references; i++) reference_free(&k->reference[i]);
    mesh_close(&k->mesh);
}

static void note(check_result *c, double *part, double scaled, const char *what, const char *of, int step, int rank)
{
    if (scaled > *part) *part = scaled;
    if (!(scaled > c->residual)) return;
    c->residual = scaled;
    snprintf(c->worst, sizeof c->worst, "%s of %s at step %d, most on rank %d", what, of, step, rank);
}

static void judge_losses(check_result *c, const reference *r, const trainer *t, int step, const check_limits *limits)
{
    char sequence[32];
    double limit = step == 0 ? limits->loss_first : limits->loss_later;
    worst_row w = compare_losses(t, r, step), mean = compare_mean_loss(t, r, step);
    snprintf(sequence, sizeof sequence, "sequence %d", w.row);
    note(c, &c->loss, CHECK_THRESHOLD * w.r / limit, "loss", sequence, step, w.rank);
    note(c, &c->loss, CHECK_THRESHOLD * mean.r / limit, "loss", "the step, as reported", step, mean.rank);
}

static void judge_norm(check_result *c, const reference *r, const trainer *t, int step, const check_limits *limits)
{
    worst_row w = compare_norm(t, r, step);
    double limit = step == 0 ? limits->gradient_first : limits->gradient_fourth;
    note(c, step == 0 ? &c->gradient_first : &c->gradient_fourth, CHECK_THRESHOLD * w.r / limit, "norm", "the gradient, as reported",
         step, w.rank);
}

/* Within the limits of a gradient its norm could lack a bucket. But the trainer's sum is exact, and n squares added in double
 * differ from it by at most n 2^-53 of it, the norm by half of that. */
static void judge_norm_held(check_result *c, const reference *r, const trainer *t, int step)
{
    worst_row w = compare_norm_held(t, step);
    double limit = (double)r->values * 0x1p-53;
    note(c, step == 0 ? &c->gradient_first : &c->gradient_fourth, CHECK_THRESHOLD * w.r / limit, "norm",
         "the gradient that the ranks hold", step, w.rank);
}

static void judge_gradients(check_result *c, const reference *r, const trainer *t, int step, double limit, double *part)
{
    worst_row w = compare_rows(t, r, COMPARE_GRADIENT, r->gradient[step != 0], NULL);
    note(c, part, CHECK_THRESHOLD * w.r / limit, "gradient", r->name[w.row], step, w.rank);
}

static void judge_weights(check_result *c, const reference *r, const trainer *t, int step, double limit)
{
    worst_row w = compare_rows(t, r, COMPARE_WEIGHT, r->weight, r->first_weight);
    note(c, &c->weights, CHECK_THRESHOLD * w.r / limit, "weights", r->name[w.row], step, w.rank);
}

/* They are copies: one wrong element is at the limit. */
static void judge_gathered(check_result *c, const reference *r, const trainer *t, int step)
{
    worst_row w = compare_gathered(t, r);
    note(c, &c->weights, CHECK_THRESHOLD * w.r, "gathered weights", r->name[w.row], step, w.rank);
}

static void judge_step(check_result *c, const check *k, const trainer *t, int step)
{
    for (int i = 0; i < k->references; i++) {
        const reference *r = &k->reference[i];
        check_limits limits = check_limits_of(k->given.precision, i == 1);
        judge_losses(c, r, t, step, &limits);
        judge_norm(c, r, t, step, &limits);
        if (step == 0) judge_gradients(c, r, t, step, limits.gradient_first, &c->gradient_first);
        if (step < CHECK_STEPS - 1) continue;
        judge_gradients(c, r, t, step, limits.gradient_fourth, &c->gradient_fourth);
        judge_weights(c, r, t, step, limits.weights);
    }
    judge_norm_held(c, &k->reference[0], t, step);
    if (step == CHECK_STEPS - 1) judge_gathered(c, &k->reference[0], t, step);
}

/* Struck executions of all ranks. */
static int64_t count_strikes(const trainer *t)
{
    double strikes = t ? (double)machine_strikes(t->machine) : 0.0;
    world_sum(&strikes, 1);
    return (int64_t)strikes;
}

check_result check_run(check *k, const machine_options *on, case_result *r)
{
    check_result c = { .done = true };
    trainer t;
    bool part = k->mesh.takes_part;
    double begin = clock_seconds();
    trainer_options o = { .machine = *on, .strike = strike_of(&k->given, &k->mesh, on) };
    if (part) {
        trainer_build(&t, &k->given, &k->mesh, &o);
        trainer_initialize(&t);
    }
    for (int step = 0; step < CHECK_STEPS; step++) {
        if (part) mark_sync(trainer_step(&t));
        if (part && step == CHECK_STEPS - 1) machine_sync(t.machine);
        judge_step(&c, k, part ? &t : NULL, step);
    }
    c.strikes = count_strikes(part ? &t : NULL);
    if (part) {
        result_add_machine(r, t.machine);
        trainer_dismantle(&t);
    }
    c.passed = c.residual < CHECK_THRESHOLD;
    c.seconds = clock_seconds() - begin;
    return c;
}
