/* The check model on the mesh, compared with its references. */
#include "bench/check.h"
#include "base/clock.h"
#include "bench/case_machine.h"
#include "bench/compare.h"
#include "bench/fault.h"
#include "machine/world.h"
#include <math.h>
#include <stdio.h>
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
 * limits. Weights: r with the change of four steps as reference. Calibrated on the host on 1100 healthy checks
 * (validation/units/ calibration.c, five seeds: Llama 3.1 and Llama 2 in all layouts of the four axes up to 8 ranks,
 * with every schedule, overlap on and off, every recompute mask and sharding), and on the planted faults of
 * validation/faults: the weakest that the check caught was 90 times the limit in FP32, in BF16 1.4 times (one of the
 * copies of keys that the ring of attention passes on was stale), or 2.2 times with a single element flipped (of
 * gathered weights a single wrong element is the limit itself). A healthy check stays near half of a limit or below,
 * with two exceptions. In FP32 a single element of the embedding whose gradient is smaller than its rounding may step
 * the other way (Adam's first step is a sign): 6.4e-3 of the weights of one rank of TP6, 99.8 % of the squares that
 * element's. In BF16 one sequence of hundreds is 5.9e-4 of its loss away from FP32 at the first step, at most 1.9e-4
 * away from the BF16 reference. The BF16 rows are of models up to seven layers, or reduced to that depth. FP32 has room
 * for the roundings of some hundred layers. Overlap counts with tensor ranks. */
check_limits check_limits_of(case_precision precision, int64_t layers, bool against_fp32)
{
    /* largest healthy ratio      loss: first, later  gradient: first, fourth  weights */
    static const check_limits fp32 = { { 1e-6, 2e-5, 1e-5, 1e-3, 1e-2 } };
    /* all                   1.9e-8   1.4e-6   1.7e-6   3.2e-4   6.4e-3
     * context               1.7e-8   9.2e-7   1.4e-6   8.2e-5   2.4e-3
     * pipeline              1.9e-8   1.4e-6   1.7e-6   5.6e-5   3.2e-3
     * overlap on            1.9e-8   7.7e-7   1.7e-6   3.2e-4   6.4e-3
     * overlap off           1.5e-8   1.4e-6   1.6e-6   8.6e-5   3.2e-3
     * attention_mlp         1.5e-8   9.2e-7   1.6e-6   8.1e-5   2.4e-3
     * Llama 2               1.0e-8   1.0e-7   9.9e-7   1.8e-5   6.1e-4 */
    static const check_limits bf16 = { { 1e-3, 2e-3, 3e-2, 1.5e-1, 3e-1 } };
    /* all                   1.9e-4   8.2e-4   1.1e-2   2.8e-2   1.6e-1
     * context               9.6e-5   4.8e-4   1.0e-2   2.8e-2   1.6e-1
     * pipeline              1.9e-4   8.2e-4   1.1e-2   2.8e-2   1.4e-1
     * overlap on            4.7e-5   4.9e-4   1.1e-2   2.6e-2   1.6e-1
     * overlap off           1.9e-4   4.3e-4   9.9e-3   2.8e-2   1.4e-1
     * attention_mlp         1.9e-4   5.8e-4   9.9e-3   2.8e-2   1.4e-1
     * Llama 2               1.9e-4   5.4e-4   9.2e-3   1.9e-2   1.4e-1 */
    static const check_limits bf16_against_fp32 = { { 1e-3, 4e-3, 5e-2, 2e-1, 4e-1 } };
    /* all                   5.9e-4   9.4e-4   2.6e-2   2.9e-2   1.9e-1
     * context               4.1e-4   6.8e-4   2.2e-2   2.7e-2   1.7e-1
     * pipeline              5.4e-4   9.4e-4   2.6e-2   2.7e-2   1.9e-1
     * overlap on            4.0e-4   4.4e-4   2.6e-2   2.7e-2   1.9e-1
     * overlap off           2.8e-4   5.1e-4   2.2e-2   2.9e-2   1.9e-1
     * attention_mlp         5.4e-4   6.4e-4   2.6e-2   2.8e-2   1.7e-1
     * Llama 2               5.4e-4   4.6e-4   1.8e-2   1.9e-2   1.5e-1 */
    if (precision == PRECISION_FP32) return fp32;
    return deepened(against_fp32 ? bf16_against_fp32 : bf16, layers);
}

void check_open(check *k, const bench_case *c)
{
    memset(k, 0, sizeof *k);
    k->given = check_case(c);
    k->references = k->given.precision == PRECISION_FP32 ? 1 : 2;
    for (int i = 0; i < k->references; i++) reference_compute(&k->reference[i], &k->given, i == 1);
    mesh_open(&k->mesh, &k->given.layout, world_rank(), mesh_on(case_machine(c).kind));
}

void check_close(check *k)
{
    for (int i = 0; i < k->references; i++) reference_free(&k->reference[i]);
    mesh_close(&k->mesh);
}

/* One reference's view of one step. */
typedef struct {
    check_result *result;
    const reference *r;
    const trainer *t;
    int step;
    check_limits limits, *found;
} judgement;

static double *part_of(check_result *c, check_measure m)
{
    double *const part[] = { &c->loss, &c->loss, &c->gradient_first, &c->gradient_fourth, &c->weights };
    return part[m];
}

static void note(check_result *c, double *part, double scaled, const char *what, const char *of, int step, int rank)
{
    if (scaled > *part) *part = scaled;
    if (!(scaled > c->residual)) return;
    c->residual = scaled;
    snprintf(c->worst, sizeof c->worst, "%s of %s at step %d, largest on rank %d", what, of, step, rank);
}

static void judge(const judgement *j, check_measure m, worst_row w, const char *what, const char *of)
{
    if (w.r > j->found->of[m]) j->found->of[m] = w.r;
    note(j->result, part_of(j->result, m), CHECK_THRESHOLD * w.r / j->limits.of[m], what, of, j->step, w.rank);
}

static void judge_losses(const judgement *j)
{
    char sequence[32];
    check_measure m = j->step == 0 ? CHECK_LOSS_FIRST : CHECK_LOSS_LATER;
    worst_row w = compare_losses(j->t, j->r, j->step), mean = compare_mean_loss(j->t, j->r, j->step);
    snprintf(sequence, sizeof sequence, "sequence %d", w.row);
    judge(j, m, w, "loss", sequence);
    judge(j, m, mean, "loss", "the step, as reported");
}

/* Norms of the steps between are held to the last one's limit. */
static check_measure gradient_measure(const judgement *j)
{
    return j->step == 0 ? CHECK_GRADIENT_FIRST : CHECK_GRADIENT_FOURTH;
}

static void judge_norm(const judgement *j)
{
    judge(j, gradient_measure(j), compare_norm(j->t, j->r, j->step), "norm", "the gradient, as reported");
}

/* Within the limits of a gradient its norm could lack a bucket. But the trainer's sum is exact (to 2^-81 a square,
 * nothing beside a norm above 1e-4), and n squares added in double differ from it by at most n 2^-53 of it, the norm by
 * half of that. */
static void judge_norm_held(check_result *c, const reference *r, const trainer *t, int step)
{
    worst_row w = compare_norm_held(t, step);
    double limit = (double)r->values * 0x1p-53;
    note(c, step == 0 ? &c->gradient_first : &c->gradient_fourth, CHECK_THRESHOLD * w.r / limit, "norm",
         "the gradient that the ranks hold", step, w.rank);
}

static void judge_gradients(const judgement *j)
{
    worst_row w = compare_rows(j->t, j->r, COMPARE_GRADIENT, j->r->gradient[j->step != 0], NULL);
    judge(j, gradient_measure(j), w, "gradient", j->r->name[w.row]);
}

static void judge_weights(const judgement *j)
{
    worst_row w = compare_rows(j->t, j->r, COMPARE_WEIGHT, j->r->weight, j->r->first_weight);
    judge(j, CHECK_WEIGHTS, w, "weights", j->r->name[w.row]);
}

/* They are copies: one wrong element is at the limit. */
static void judge_gathered(check_result *c, const reference *r, const trainer *t, int step)
{
    worst_row w = compare_gathered(t, r);
    note(c, &c->weights, CHECK_THRESHOLD * w.r, "gathered weights", r->name[w.row], step, w.rank);
}

static void judge_step(check_result *c, check *k, const trainer *t, int step)
{
    bool last = step == CHECK_STEPS - 1;
    for (int i = 0; i < k->references; i++) {
        check_limits limits = check_limits_of(k->given.precision, k->given.model.layers, i == 1);
        judgement j = { c, &k->reference[i], t, step, limits, &k->found[i] };
        judge_losses(&j);
        judge_norm(&j);
        if (step == 0 || last) judge_gradients(&j);
        if (last) judge_weights(&j);
    }
    judge_norm_held(c, &k->reference[0], t, step);
    if (last) judge_gathered(c, &k->reference[0], t, step);
}

/* Struck executions of all ranks. */
static int64_t count_faults(const trainer *t)
{
    double faults = t ? (double)machine_faults(t->machine) : 0.0;
    world_sum(&faults, 1);
    return (int64_t)faults;
}

check_result check_run(check *k, const machine_options *on, case_result *r)
{
    check_result c = { .done = true };
    trainer t;
    memset(k->found, 0, sizeof k->found);
    bool part = k->mesh.takes_part;
    double begin = clock_seconds();
    trainer_options o = { .machine = *on, .fault = fault_of(&k->given, &k->mesh, on) };
    if (part) {
        trainer_build(&t, &k->given, &k->mesh, &o);
        trainer_initialize(&t);
    }
    for (int step = 0; step < CHECK_STEPS; step++) {
        if (part) mark_sync(trainer_step(&t));
        if (part && step == CHECK_STEPS - 1) machine_sync(t.machine);
        judge_step(&c, k, part ? &t : NULL, step);
    }
    c.faults = count_faults(part ? &t : NULL);
    fault_struck(&k->given, part ? t.machine : NULL, c.struck);
    if (part) {
        result_add_machine(r, t.machine);
        trainer_dismantle(&t);
    }
    c.passed = c.residual < CHECK_THRESHOLD;
    c.seconds = clock_seconds() - begin;
    return c;
}
