/* The two runs of the check model and their comparison with the references. */
#include "bench/check/check.h"
#include "base/clock.h"
#include "base/numeric.h"
#include "bench/check/compare.h"
#include "bench/check/fault.h"
#include "bench/check/routing.h"
#include "bench/check/scaling.h"
#include "bench/launch/case_machine.h"
#include "bench/launch/window.h"
#include "machine/prove/prove.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check_open(check *k, const bench_case *c)
{
    memset(k, 0, sizeof *k);
    k->given = check_case(c);
    k->references = k->given.precision == PRECISION_FP32 ? 1 : 2;
    k->routes = k->given.model.experts > 0;
    k->scales = k->given.precision == PRECISION_FP8;
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

typedef struct {
    check_result *result;
    const reference *r;
    const trainer *t;
    int step;
    bool weights; /* compares weights too */
    check_limits limits, *found;
} step_comparison;

static double *ratio_in(check_result *c, check_measure m)
{
    double *const ratio[] = {
        &c->loss,  &c->loss,    &c->gradient_first, &c->gradient_fourth, &c->gradient_first, &c->gradient_fourth,
        &c->along, &c->weights, &c->routing,        &c->routing,         &c->scales,         &c->scales
    };
    return ratio[m];
}

static void keep_worst(check_result *c, double *ratio, double scaled, const char *what, const char *name, int step,
                       int rank)
{
    if (scaled > *ratio) *ratio = scaled;
    if (!(scaled > c->residual)) return;
    c->residual = scaled;
    c->worst_rank = rank;
    snprintf(c->worst, sizeof c->worst, "%s of %s at step %d, largest on rank %d", what, name, step, rank);
}

static void judge(const step_comparison *s, check_measure m, worst_row w, const char *what, const char *name)
{
    if (w.r > s->found->of[m]) s->found->of[m] = w.r;
    keep_worst(s->result, ratio_in(s->result, m), CHECK_THRESHOLD * w.r / s->limits.of[m], what, name, s->step, w.rank);
}

static void judge_losses(const step_comparison *s)
{
    char sequence[32];
    check_measure m = s->step == 0 ? CHECK_LOSS_FIRST : CHECK_LOSS_LATER;
    worst_row w = compare_losses(s->t, s->r, s->step), mean = compare_mean_loss(s->t, s->r, s->step);
    snprintf(sequence, sizeof sequence, "sequence %d", w.row);
    judge(s, m, w, "loss", sequence);
    judge(s, m, mean, "loss", "the step, as reported");
}

static void judge_row(const step_comparison *s, check_measure m, worst_row w, const char *what)
{
    judge(s, m, w, what, s->r->name[w.row]);
}

/* The norms of all steps after the first have the limit of the last step. */
static void judge_training(const step_comparison *s)
{
    const reference *r = s->r;
    bool first = s->step == 0, last = s->step == CHECK_STEPS - 1;
    check_measure gradient = first ? CHECK_GRADIENT_FIRST : CHECK_GRADIENT_FOURTH;
    check_measure norm = first ? CHECK_NORM_FIRST : CHECK_NORM_FOURTH;
    judge_losses(s);
    judge(s, norm, compare_norm(s->t, r, s->step), "norm", "the gradient, as reported");
    if (first || last)
        judge_row(s, gradient, compare_rows(s->t, r, COMPARE_GRADIENT, r->gradient[last], NULL), "gradient");
    if (first && s->limits.along > 0.0)
        judge_row(s, CHECK_ALONG, compare_rows(s->t, r, COMPARE_ALONG, r->gradient[0], NULL),
                  "part along the gradient");
    if (last && s->weights)
        judge_row(s, CHECK_WEIGHTS, compare_rows(s->t, r, COMPARE_WEIGHT, r->weight, r->first_weight), "weights");
}

/* In two cases the weights are not compared with the FP32 reference. In FP8, the signs of gradients change, and Adam's
 * first steps follow these signs. BF16 weights without a master change by whole units in the last place, and many in a
 * deep check model do not change at all (r up to 0.8). */
static bool measures_weights(const check *k, int which)
{
    storage_rule kept = storage_of(&k->given);
    return which == 0 || (!k->scales && (kept.weight == KEPT_FP32 || kept.master == KEPT_FP32));
}

/* Compares reported loads, drops and balance loss with the sum over ranks, each of which computes some sequences. */
static void judge_expert_figures(const step_comparison *s)
{
    const model_shape *m = &s->r->given.model;
    int64_t n = 1 + 2 * m->layers * m->experts, wrong = 0;
    double *sum = reference_doubles(n);
    memcpy(sum, trainer_routed_figures(&s->r->trainer, s->step), (size_t)n * sizeof *sum);
    world_sum(sum, n);
    const double *reported = s->t ? trainer_routed_figures(s->t, s->step) : sum;
    for (int64_t i = 1; i < n; i++) wrong += reported[i] != sum[i];
    worst_row loads = compare_largest((double)wrong), balance = compare_largest(fabs(reported[0] / sum[0] - 1.0));
    free(sum);
    keep_worst(s->result, &s->result->routing, CHECK_THRESHOLD * loads.r, "loads and drops", "the step, as reported",
               s->step, loads.rank);
    judge(s, CHECK_BALANCE, balance, "balance loss", "the step, as reported");
}

/* The reference uses the run's choices. Its own logits may favor another expert only if the difference is small. */
static void judge_routing(const step_comparison *s)
{
    routing_flips f = routing_compare(&s->r->trainer);
    double flips = (double)f.flips;
    worst_row margin = compare_largest(f.margin);
    world_sum(&flips, 1);
    s->result->flips += (int64_t)flips;
    s->result->margin = fmax(s->result->margin, margin.r);
    judge(s, CHECK_MARGIN, margin, "choices of experts", "the routers, by the references' logits");
    judge_expert_figures(s);
}

static check_limits limits_of(const check *k, int which) { return check_limits_of(&k->given, which == 1); }

static void judge_step(check_result *c, check *k, const trainer *t, int step)
{
    for (int i = 0; i < k->references; i++) {
        step_comparison s = { .result = c,
                              .r = &k->reference[i],
                              .t = t,
                              .step = step,
                              .weights = measures_weights(k, i),
                              .found = &k->found[i],
                              .limits = limits_of(k, i) };
        judge_training(&s);
        if (k->routes) judge_routing(&s);
    }
}

/* Compares the run's scales with the reference's, then gives them to the reference. */
static void judge_scales(check_result *c, check *k, const run_scales *scales, int step)
{
    char name[64];
    reference *r = &k->reference[0];
    step_comparison s = { .result = c, .step = step, .found = &k->found[0], .limits = limits_of(k, 0) };
    scale_difference d = scaling_give(&r->trainer, scales->scale);
    worst_row w = { .r = d.distance };
    c->scale_flips += d.flips;
    keep_worst(c, &c->scales, CHECK_THRESHOLD * (double)scales->differing_ranks, "scales", "FP8, on ranks", step, 0);
    judge(&s, step ? CHECK_SCALE_LATER : CHECK_SCALE_FIRST, w, "scale",
          scaling_name(&r->given, d.tensor, name, sizeof name));
}

static void open_references(check *k, const trainer *t)
{
    int32_t *choices = k->routes && k->scales ? routing_calibration(t, &k->given) : NULL;
    for (int i = 0; i < k->references; i++) reference_open(&k->reference[i], &k->given, i == 1, choices);
    free(choices);
}

static void step_references(check_result *c, check *k, const trainer *t, const run_scales *scales, int step)
{
    if (k->routes) routing_give(t, k->reference, k->references);
    if (fp8_delays(&k->given)) judge_scales(c, k, scales, step);
    else if (k->scales) scaling_give_current(t, &k->given, &k->reference[0].trainer);
    for (int i = 0; i < k->references; i++) reference_step(&k->reference[i], step);
}

/* Results of one run: reported losses and norms, and a digest of this rank's weights. */
typedef struct {
    double loss[CHECK_STEPS], norm[CHECK_STEPS];
    uint64_t weights;
} outcome;

static outcome outcome_of(const trainer *t)
{
    outcome result = { .weights = 0 };
    for (int step = 0; t && step < CHECK_STEPS; step++) {
        step_report s = trainer_report(t, step);
        result.loss[step] = s.scalar[SCALAR_LOSS];
        result.norm[step] = s.scalar[SCALAR_NORM];
    }
    if (t) result.weights = compare_digest(t);
    return result;
}

static outcome end_run(check_result *c, const check *k, trainer *t, machine_findings *found)
{
    outcome result = outcome_of(t);
    if (!t) return result;
    c->faults += prove_faults(t->machine);
    fault_struck(&k->given, t->machine, c->struck);
    findings_add(found, t->machine, &found->shadow);
    trainer_dismantle(t);
    return result;
}

/* Trains with overlapping queues, like the timed steps. The references advance step by step with the run, because they
 * use its choices of experts and its FP8 scales. */
static outcome run_overlapping(check *k, const trainer_options *o, check_result *c, machine_findings *found)
{
    trainer own, *t = k->mesh.takes_part ? &own : NULL;
    if (t) {
        trainer_build(t, &k->given, &k->mesh, o, &k->share);
        trainer_initialize(t);
    }
    machine_agree(o->machine.kind);
    open_references(k, t);
    for (int step = 0; step < CHECK_STEPS; step++) {
        run_scales scales = fp8_delays(&k->given) ? scaling_of_run(t, &k->given) : (run_scales){ 0 };
        if (t) mark_sync(trainer_step(t));
        if (t && step == CHECK_STEPS - 1) machine_sync(t->machine);
        step_references(c, k, t, &scales, step);
        judge_step(c, k, t, step);
        free(scales.scale);
    }
    for (int i = 0; i < k->references; i++) reference_end(&k->reference[i]);
    return end_run(c, k, t, found);
}

/* Trains again, and checks every operation and transfer. If the machine is not deterministic, compares this run with
 * the references instead of the first run, unless they used choices or scales of the first run. */
static outcome run_observed(check *k, const trainer_options *o, bool repeats, check_result *c, machine_findings *found)
{
    trainer own, *t = k->mesh.takes_part ? &own : NULL;
    if (t) trainer_build(t, &k->given, &k->mesh, o, &k->share);
    machine_agree(o->machine.kind);
    if (t) {
        prove_shadow(t->machine, SHADOW_FULL);
        prove_transfers(t->machine, DELIVERY_ALL, &k->share.step);
        trainer_initialize(t);
    }
    for (int step = 0; step < CHECK_STEPS; step++) {
        if (t) trainer_step(t);
        if (t) machine_sync(t->machine);
        if (t) prove_judge_sums(t->machine);
        if (!repeats && !k->routes && !k->scales) judge_step(c, k, t, step);
    }
    delivery_report d = prove_judge_transfers(t ? t->machine : NULL);
    c->transfers = d.transfers;
    c->differing = d.differing;
    c->difference_rank = d.rank;
    snprintf(c->difference, sizeof c->difference, "%s", d.sentence);
    return end_run(c, k, t, found);
}

static uint64_t digest_of(const outcome *result)
{
    uint64_t sum = 0, word[sizeof *result / sizeof(uint64_t)];
    memcpy(word, result, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        sum += digest_element((uint64_t)world_part_rank(), (int64_t)i, word[i]);
    world_sum_words(&sum, 1);
    return sum;
}

static void compare_runs(check_result *c, const outcome *first, const outcome *second)
{
    char sentence[sizeof c->difference] = "";
    for (int step = CHECK_STEPS - 1; step >= 0; step--)
        if (memcmp(&first->loss[step], &second->loss[step], sizeof first->loss[step]) != 0 ||
            memcmp(&first->norm[step], &second->norm[step], sizeof first->norm[step]) != 0)
            snprintf(sentence, sizeof sentence, "run twice, step %d has loss %.9g and %.9g, norm %.9g and %.9g", step,
                     first->loss[step], second->loss[step], first->norm[step], second->norm[step]);
    if (first->weights != second->weights && !sentence[0])
        snprintf(sentence, sizeof sentence, "run twice, rank %d has other weights at the end", world_rank());
    int rank = world_share_sentence(sentence, sizeof sentence);
    if (rank < 0 || c->differing++) return;
    memcpy(c->difference, sentence, sizeof sentence);
    c->difference_rank = rank;
}

check_result check_run(check *k, const machine_options *options, machine_findings *found)
{
    trainer_options o = { .machine = *options, .fault = fault_agreed(&k->given, &k->share) };
    bool repeats = options->kind == MACHINE_HOST || options->tuning.deterministic;
    check_result c = { .done = true };
    double begin = clock_seconds();
    memset(k->found, 0, sizeof k->found);
    outcome first = run_overlapping(k, &o, &c, found), second = run_observed(k, &o, repeats, &c, found);
    if (repeats) compare_runs(&c, &first, &second);
    snprintf(c.digest, sizeof c.digest, "%016llx", (unsigned long long)digest_of(&first));
    c.passed = c.residual < CHECK_THRESHOLD && c.differing == 0;
    c.seconds = clock_seconds() - begin;
    return c;
}
