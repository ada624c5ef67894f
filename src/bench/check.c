/* The check model on the mesh, compared with its references. */
#include "bench/check.h"
#include "base/clock.h"
#include "bench/case_machine.h"
#include "bench/compare.h"
#include "bench/fault.h"
#include "bench/routing.h"
#include "bench/window.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALIBRATED_LAYERS = 7 };

/* Every layer rounds the residual stream to BF16 twice, and independent roundings add up with the square root of their
 * number: in these units 180 healthy models of 6 to 64 layers (TP2 PP2, up to 32 chunks) stay below 0.61 of every
 * limit. */
static check_limits deepened(check_limits limits, int64_t layers)
{
    double factor = sqrt(fmax(1.0, (double)layers / CALIBRATED_LAYERS));
    for (int m = 0; m < CHECK_MEASURES; m++) limits.of[m] *= factor;
    return limits;
}

/* Loss: relative, per sequence and of the step as reported. Gradients: r (compare.h); the reported norm has their
 * limits. Weights: r with the change of four steps as reference. Balance loss of experts: relative. Margin: of logits,
 * where a choice of experts is not the reference's. A limit is twice what any healthy check reached, or more; that is,
 * with the weakest planted faults, in validation/measured/calibration-host.txt, and the largest of it here, of
 *                              Llama 3.1  Llama 2  Nemotron-4  GPT-3    Grok-1 */
static const check_limits fp32 = {
    .loss_first = 1e-6,      /* 1.5e-8    5.3e-9   1.1e-8      9.6e-9   6.3e-9: room for some hundred layers */
    .loss_later = 2e-5,      /* 9.3e-7    3.9e-8   7.1e-7      5.7e-7   2.7e-7 */
    .gradient_first = 1e-5,  /* 1.6e-6    9.5e-7   1.5e-6      1.2e-6   1.2e-6 */
    .gradient_fourth = 1e-3, /* 2.3e-4    1.1e-5   9.0e-5      2.2e-5   7.3e-5 */
    .weights = 1e-2,         /* 3.7e-3    4.6e-4   4.3e-3      1.4e-3   1.0e-3: a gradient below its rounding turns */
    .balance = 2e-5,         /*                                         2.2e-7 */
    .margin = 1e-4,          /*                                         no choice differed */
};
static const check_limits bf16 = {
    .loss_first = 1e-3,        /* 3.4e-4  9.8e-5   1.8e-4      2.5e-4   1.8e-4 */
    .loss_later = 2e-3,        /* 5.8e-4  4.8e-4   6.0e-4      2.5e-4   3.4e-4 */
    .gradient_first = 4.7e-2,  /* 2.1e-2  1.3e-2   1.9e-2      2.3e-2   1.7e-2 */
    .gradient_fourth = 1.5e-1, /* 2.7e-2  1.9e-2   2.2e-2      2.6e-2   2.4e-2 */
    .weights = 5.7e-1,         /* 2.1e-1  2.8e-1   1.3e-1      2.3e-1   1.3e-1 */
    .balance = 2e-3,           /*                                       4.0e-4 */
    .margin = 1e-1,            /*                                       3.2e-2 */
};
static const check_limits bf16_against_fp32 = {
    .loss_first = 1.2e-3,    /* 5.2e-4    3.2e-4   5.6e-4      5.3e-4   3.0e-4 */
    .loss_later = 4e-3,      /* 7.7e-4    4.6e-4   1.8e-3      5.5e-4   4.2e-4 */
    .gradient_first = 5e-2,  /* 2.2e-2    1.7e-2   2.5e-2      2.1e-2   2.1e-2 */
    .gradient_fourth = 2e-1, /* 2.8e-2    1.8e-2   5.1e-2      2.5e-2   2.7e-2 */
    .weights = 5.8e-1,       /* 2.2e-1    1.6e-1   (BF16)      2.9e-1   1.9e-1 */
    .balance = 4e-3,         /*                                         6.0e-4 */
    .margin = 1e-1,          /*                                         2.3e-2 */
};

check_limits check_limits_of(case_precision precision, int64_t layers, bool against_fp32)
{
    if (precision == PRECISION_FP32) return fp32;
    return deepened(against_fp32 ? bf16_against_fp32 : bf16, layers);
}

void check_open(check *k, const bench_case *c)
{
    memset(k, 0, sizeof *k);
    k->given = check_case(c);
    k->references = k->given.precision == PRECISION_FP32 ? 1 : 2;
    k->routes = k->given.model.experts > 0;
    trainer_options o = { .machine = case_machine(c), .fault = fault_planted(&k->given) };
    mesh_open(&k->mesh, &k->given.layout, world_rank(), mesh_on(o.machine.kind));
    if (k->mesh.takes_part) k->share = measure_case(&k->given, &k->mesh, &o);
    window_agree(&k->given, &k->share);
}

void check_close(check *k)
{
    for (int i = 0; i < k->references; i++) reference_free(&k->reference[i]);
    measure_free(&k->share);
    mesh_close(&k->mesh);
}

/* One step, held to one reference. */
typedef struct {
    check_result *result;
    const reference *r;
    const trainer *t;
    int step;
    bool weights; /* held to the reference's */
    check_limits limits, *found;
} held_step;

static double *part_of(check_result *c, check_measure m)
{
    double *const part[] = { &c->loss,    &c->loss,    &c->gradient_first, &c->gradient_fourth,
                             &c->weights, &c->routing, &c->routing };
    return part[m];
}

static void note(check_result *c, double *part, double scaled, const char *what, const char *of, int step, int rank)
{
    if (scaled > *part) *part = scaled;
    if (!(scaled > c->residual)) return;
    c->residual = scaled;
    snprintf(c->worst, sizeof c->worst, "%s of %s at step %d, largest on rank %d", what, of, step, rank);
}

static void hold(const held_step *h, check_measure m, worst_row w, const char *what, const char *of)
{
    if (w.r > h->found->of[m]) h->found->of[m] = w.r;
    note(h->result, part_of(h->result, m), CHECK_THRESHOLD * w.r / h->limits.of[m], what, of, h->step, w.rank);
}

static void hold_losses(const held_step *h)
{
    char sequence[32];
    check_measure m = h->step == 0 ? CHECK_LOSS_FIRST : CHECK_LOSS_LATER;
    worst_row w = compare_losses(h->t, h->r, h->step), mean = compare_mean_loss(h->t, h->r, h->step);
    snprintf(sequence, sizeof sequence, "sequence %d", w.row);
    hold(h, m, w, "loss", sequence);
    hold(h, m, mean, "loss", "the step, as reported");
}

/* The worst row of the parameter table, by its name. */
static void hold_row(const held_step *h, check_measure m, worst_row w, const char *what)
{
    hold(h, m, w, what, h->r->name[w.row]);
}

/* Norms of the steps between are held to the last one's limit. */
static void hold_to_reference(const held_step *h)
{
    const reference *r = h->r;
    bool first = h->step == 0, last = h->step == CHECK_STEPS - 1;
    check_measure gradient = first ? CHECK_GRADIENT_FIRST : CHECK_GRADIENT_FOURTH;
    hold_losses(h);
    hold(h, gradient, compare_norm(h->t, r, h->step), "norm", "the gradient, as reported");
    if (first || last)
        hold_row(h, gradient, compare_rows(h->t, r, COMPARE_GRADIENT, r->gradient[last], NULL), "gradient");
    if (last && h->weights)
        hold_row(h, CHECK_WEIGHTS, compare_rows(h->t, r, COMPARE_WEIGHT, r->weight, r->first_weight), "weights");
}

/* Within the limits of a gradient its norm could lack a bucket. But the trainer's sum is exact (to 2^-81 a square,
 * nothing beside a norm above 1e-4), and n squares added in double differ from it by at most n 2^-53 of it, the norm by
 * half of that. Gathered weights are copies: one wrong element is at the limit. */
static void hold_to_itself(check_result *c, const reference *r, const trainer *t, int step)
{
    double limit = (double)r->values * 0x1p-53;
    worst_row norm = compare_norm_held(t, step);
    note(c, step == 0 ? &c->gradient_first : &c->gradient_fourth, CHECK_THRESHOLD * norm.r / limit, "norm",
         "the gradient that the ranks hold", step, norm.rank);
    if (step < CHECK_STEPS - 1) return;
    worst_row w = compare_gathered(t, r);
    note(c, &c->weights, CHECK_THRESHOLD * w.r, "gathered weights", r->name[w.row], step, w.rank);
}

/* A BF16 weight without a master moves by whole units in its last place: at the rate of a deep check model many stay as
 * they are, and FP32's weights are no measure of them (r up to 0.8). The BF16 reference rounds as the run does. */
static bool measures_weights(const check *k, int which)
{
    storage_rule kept = storage_of(&k->given);
    return which == 0 || kept.weight == KEPT_FP32 || kept.master == KEPT_FP32;
}

/* What the step reports of its experts, against what the references do, each of which counts its own sequences. */
static void hold_reports(const held_step *h)
{
    const model_shape *m = &h->r->given.model;
    int64_t n = 1 + 2 * m->layers * m->experts, wrong = 0;
    double *sum = reference_doubles(n);
    memcpy(sum, trainer_routed_figures(&h->r->trainer, h->step), (size_t)n * sizeof *sum);
    world_sum(sum, n);
    const double *said = h->t ? trainer_routed_figures(h->t, h->step) : sum;
    for (int64_t i = 1; i < n; i++) wrong += said[i] != sum[i];
    worst_row loads = compare_largest((double)wrong), balance = compare_largest(fabs(said[0] / sum[0] - 1.0));
    free(sum);
    note(h->result, &h->result->routing, CHECK_THRESHOLD * loads.r, "loads and drops", "the step, as reported", h->step,
         loads.rank);
    hold(h, CHECK_BALANCE, balance, "balance loss", "the step, as reported");
}

/* The routers of the mesh decide, exactly by the rule; the reference's take that, and would have decided otherwise only
 * where two logits are near. */
static void hold_routing(const held_step *h)
{
    routing_flips f = routing_compare(&h->r->trainer);
    double flips = (double)f.flips;
    worst_row broken = compare_largest((double)routing_broken(h->t)), margin = compare_largest(f.margin);
    world_sum(&flips, 1);
    h->result->flips += (int64_t)flips;
    h->result->margin = fmax(h->result->margin, margin.r);
    note(h->result, &h->result->routing, CHECK_THRESHOLD * broken.r, "choices of experts",
         "the routers, by their own logits", h->step, broken.rank);
    hold(h, CHECK_MARGIN, margin, "choices of experts", "the routers, by the references' logits");
    hold_reports(h);
}

static void hold_step(check_result *c, check *k, const trainer *t, int step)
{
    for (int i = 0; i < k->references; i++) {
        held_step h = { .result = c,
                        .r = &k->reference[i],
                        .t = t,
                        .step = step,
                        .weights = measures_weights(k, i),
                        .found = &k->found[i],
                        .limits = check_limits_of(k->given.precision, k->given.model.layers, i == 1) };
        hold_to_reference(&h);
        if (k->routes) hold_routing(&h);
    }
    hold_to_itself(c, &k->reference[0], t, step);
}

/* References go beside the first run, those of a mixture of experts beside each, whose choices they take. */
static void step_references(check *k, const trainer *t, int step)
{
    for (int i = 0; step == 0 && i < k->references; i++) {
        reference_free(&k->reference[i]);
        reference_open(&k->reference[i], &k->given, i == 1);
    }
    if (k->routes) routing_give(t, k->reference, k->references);
    for (int i = 0; i < k->references; i++) reference_step(&k->reference[i], step);
}

static void end_references(check *k)
{
    for (int i = 0; i < k->references; i++) reference_end(&k->reference[i]);
    k->referred = !k->routes;
}

/* What the run itself says, all ranks'; takes it apart. */
static void end_run(check_result *c, const check *k, trainer *t, case_result *r)
{
    double faults = t ? (double)machine_faults(t->machine) : 0.0;
    world_sum(&faults, 1);
    c->faults = (int64_t)faults;
    fault_struck(&k->given, t ? t->machine : NULL, c->struck);
    if (!t) return;
    result_add_machine(r, t->machine);
    trainer_dismantle(t);
}

check_result check_run(check *k, const machine_options *on, case_result *r)
{
    trainer own, *t = k->mesh.takes_part ? &own : NULL;
    trainer_options o = { .machine = *on, .fault = fault_agreed(&k->given, &k->share) };
    check_result c = { .done = true };
    bool computes = !k->referred;
    double begin = clock_seconds();
    memset(k->found, 0, sizeof k->found);
    if (t) {
        trainer_build(t, &k->given, &k->mesh, &o, &k->share);
        trainer_initialize(t);
    }
    machine_agree(o.machine.kind);
    for (int step = 0; step < CHECK_STEPS; step++) {
        if (t) mark_sync(trainer_step(t));
        if (t && step == CHECK_STEPS - 1) machine_sync(t->machine);
        if (computes) step_references(k, t, step);
        hold_step(&c, k, t, step);
    }
    if (computes) end_references(k);
    end_run(&c, k, t, r);
    c.passed = c.residual < CHECK_THRESHOLD;
    c.seconds = clock_seconds() - begin;
    return c;
}
