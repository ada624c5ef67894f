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
} held_step;

static double *part_of(check_result *c, check_measure m)
{
    double *const part[] = {
        &c->loss,  &c->loss,    &c->gradient_first, &c->gradient_fourth, &c->gradient_first, &c->gradient_fourth,
        &c->along, &c->weights, &c->routing,        &c->routing,         &c->scales,         &c->scales
    };
    return part[m];
}

static void note(check_result *c, double *part, double scaled, const char *what, const char *of, int step, int rank)
{
    if (scaled > *part) *part = scaled;
    if (!(scaled > c->residual)) return;
    c->residual = scaled;
    c->worst_rank = rank;
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

static void hold_row(const held_step *h, check_measure m, worst_row w, const char *what)
{
    hold(h, m, w, what, h->r->name[w.row]);
}

/* The limit of the last step also holds for the norms of the steps between. */
static void hold_to_reference(const held_step *h)
{
    const reference *r = h->r;
    bool first = h->step == 0, last = h->step == CHECK_STEPS - 1;
    check_measure gradient = first ? CHECK_GRADIENT_FIRST : CHECK_GRADIENT_FOURTH;
    check_measure norm = first ? CHECK_NORM_FIRST : CHECK_NORM_FOURTH;
    hold_losses(h);
    hold(h, norm, compare_norm(h->t, r, h->step), "norm", "the gradient, as reported");
    if (first || last)
        hold_row(h, gradient, compare_rows(h->t, r, COMPARE_GRADIENT, r->gradient[last], NULL), "gradient");
    if (first && h->limits.along > 0.0)
        hold_row(h, CHECK_ALONG, compare_rows(h->t, r, COMPARE_ALONG, r->gradient[0], NULL), "part along the gradient");
    if (last && h->weights)
        hold_row(h, CHECK_WEIGHTS, compare_rows(h->t, r, COMPARE_WEIGHT, r->weight, r->first_weight), "weights");
}

/* Two cases exclude the weights of the FP32 reference. Adam's first steps follow the signs of gradients, and FP8
 * changes these. A BF16 weight without a master moves by whole units in its last place; in a deep check model many do
 * not move at all (r up to 0.8). The BF16 reference rounds as the run does. */
static bool measures_weights(const check *k, int which)
{
    storage_rule kept = storage_of(&k->given);
    return which == 0 || (!k->scales && (kept.weight == KEPT_FP32 || kept.master == KEPT_FP32));
}

/* Compares the step's figures of experts with the sum over the references, because each of these counts only its own
 * sequences. */
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

/* The reference takes the choices of the run. By its own logits it may choose otherwise only where two logits are
 * nearly equal. */
static void hold_routing(const held_step *h)
{
    routing_flips f = routing_compare(&h->r->trainer);
    double flips = (double)f.flips;
    worst_row margin = compare_largest(f.margin);
    world_sum(&flips, 1);
    h->result->flips += (int64_t)flips;
    h->result->margin = fmax(h->result->margin, margin.r);
    hold(h, CHECK_MARGIN, margin, "choices of experts", "the routers, by the references' logits");
    hold_reports(h);
}

static check_limits limits_of(const check *k, int which) { return check_limits_of(&k->given, which == 1); }

static void hold_step(check_result *c, check *k, const trainer *t, int step)
{
    for (int i = 0; i < k->references; i++) {
        held_step h = { .result = c,
                        .r = &k->reference[i],
                        .t = t,
                        .step = step,
                        .weights = measures_weights(k, i),
                        .found = &k->found[i],
                        .limits = limits_of(k, i) };
        hold_to_reference(&h);
        if (k->routes) hold_routing(&h);
    }
}

/* Compares the run's scales with the reference's, then gives them to the reference. */
static void hold_scales(check_result *c, check *k, const run_scales *of, int step)
{
    char name[64];
    reference *r = &k->reference[0];
    held_step h = { .result = c, .step = step, .found = &k->found[0], .limits = limits_of(k, 0) };
    scale_difference d = scaling_give(&r->trainer, of->scale);
    worst_row w = { .r = d.distance };
    c->scale_flips += d.flips;
    note(c, &c->scales, CHECK_THRESHOLD * (double)of->unlike, "scales", "FP8, on ranks", step, 0);
    hold(&h, step ? CHECK_SCALE_LATER : CHECK_SCALE_FIRST, w, "scale",
         scaling_name(&r->given, d.tensor, name, sizeof name));
}

static void open_references(check *k, const trainer *t)
{
    int32_t *choices = k->routes && k->scales ? routing_calibration(t, &k->given) : NULL;
    for (int i = 0; i < k->references; i++) reference_open(&k->reference[i], &k->given, i == 1, choices);
    free(choices);
}

static void step_references(check_result *c, check *k, const trainer *t, const run_scales *of, int step)
{
    if (k->routes) routing_give(t, k->reference, k->references);
    if (fp8_delays(&k->given)) hold_scales(c, k, of, step);
    else if (k->scales) scaling_give_current(t, &k->given, &k->reference[0].trainer);
    for (int i = 0; i < k->references; i++) reference_step(&k->reference[i], step);
}

/* Results of one run: losses and norms as reported, and a digest of this rank's weights. */
typedef struct {
    double loss[CHECK_STEPS], norm[CHECK_STEPS];
    uint64_t weights;
} outcome;

static outcome outcome_of(const trainer *t)
{
    outcome left = { .weights = 0 };
    for (int step = 0; t && step < CHECK_STEPS; step++) {
        step_report s = trainer_report(t, step);
        left.loss[step] = s.scalar[SCALAR_LOSS];
        left.norm[step] = s.scalar[SCALAR_NORM];
    }
    if (t) left.weights = compare_digest(t);
    return left;
}

/* Collects the results of the run on this rank and frees the trainer. */
static outcome end_run(check_result *c, const check *k, trainer *t, machine_findings *found)
{
    outcome left = outcome_of(t);
    if (!t) return left;
    c->faults += prove_faults(t->machine);
    fault_struck(&k->given, t->machine, c->struck);
    findings_add(found, t->machine, &found->shadow);
    trainer_dismantle(t);
    return left;
}

/* Trains as the timed steps do, with overlapping queues. The references advance step by step with the run, because they
 * take its choices of experts and its FP8 scales. */
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
        run_scales of = fp8_delays(&k->given) ? scaling_of_run(t, &k->given) : (run_scales){ 0 };
        if (t) mark_sync(trainer_step(t));
        if (t && step == CHECK_STEPS - 1) machine_sync(t->machine);
        step_references(c, k, t, &of, step);
        hold_step(c, k, t, step);
        free(of.scale);
    }
    for (int i = 0; i < k->references; i++) reference_end(&k->reference[i]);
    return end_run(c, k, t, found);
}

/* Trains again, with every operation and every transfer checked. On a machine that is not deterministic, this run is
 * compared with the references instead of with the first run, unless they took choices or scales of the first run. */
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
        if (!repeats && !k->routes && !k->scales) hold_step(c, k, t, step);
    }
    delivery_report d = prove_judge_transfers(t ? t->machine : NULL);
    c->transfers = d.transfers;
    c->differing = d.differing;
    c->difference_rank = d.rank;
    snprintf(c->difference, sizeof c->difference, "%s", d.sentence);
    return end_run(c, k, t, found);
}

static uint64_t digest_of(const outcome *left)
{
    uint64_t sum = 0, word[sizeof *left / sizeof(uint64_t)];
    memcpy(word, left, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        sum += digest_element((uint64_t)world_rank(), (int64_t)i, word[i]);
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

check_result check_run(check *k, const machine_options *on, machine_findings *found)
{
    trainer_options o = { .machine = *on, .fault = fault_agreed(&k->given, &k->share) };
    bool repeats = on->kind == MACHINE_HOST || on->tuning.deterministic;
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
