/* The check model on the mesh, compared with its references. */
#include "bench/check.h"
#include "base/clock.h"
#include "bench/compare.h"
#include "bench/strike.h"
#include "machine/world.h"
#include <stdio.h>
#include <string.h>

/* Loss: relative, per sequence, over all four steps. Gradients: r of the design at the first and the fourth step.
 * Weights: r with the change of four steps as reference. */
check_limits check_limits_of(case_precision precision)
{
    static const check_limits fp32 = { 1e-6, 2e-5, 1e-5, 2e-4, 2e-2 }, bf16 = { 1e-3, 1e-3, 3e-2, 1e-1, 5e-1 };
    return precision == PRECISION_BF16 ? bf16 : fp32;
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

static void judge_losses(check_result *c, const reference *r, const trainer *t, int step, double limit)
{
    char sequence[32];
    worst_row w = compare_losses(t, r, step);
    snprintf(sequence, sizeof sequence, "sequence %d", w.row);
    note(c, &c->loss, CHECK_THRESHOLD * w.r / limit, "loss", sequence, step, w.rank);
}

static void judge_gradients(check_result *c, const reference *r, const trainer *t, int step, double limit, double *part)
{
    worst_row w = compare_rows(t, r, COMPARE_GRADIENT, r->gradient[step != 0], NULL);
    note(c, part, CHECK_THRESHOLD * w.r / limit, "gradient", r->name[w.row], step, w.rank);
}

static void judge_step(check_result *c, const check *k, const trainer *t, int step)
{
    check_limits limit = check_limits_of(k->given.precision);
    for (int i = 0; i < k->references; i++) {
        const reference *r = &k->reference[i];
        judge_losses(c, r, t, step, step == 0 ? limit.loss_first : limit.loss_later);
        if (step == 0) judge_gradients(c, r, t, step, limit.gradient_first, &c->gradient_first);
        if (step < CHECK_STEPS - 1) continue;
        judge_gradients(c, r, t, step, limit.gradient_fourth, &c->gradient_fourth);
        worst_row w = compare_rows(t, r, COMPARE_WEIGHT, r->weight, r->first_weight);
        note(c, &c->weights, CHECK_THRESHOLD * w.r / limit.weights, "weights", r->name[w.row], step, w.rank);
    }
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
        judge_step(&c, k, part ? &t : NULL, step);
    }
    if (part) {
        machine_sync(t.machine);
        result_add_machine(r, t.machine);
        trainer_dismantle(&t);
    }
    c.passed = c.residual < CHECK_THRESHOLD;
    c.seconds = clock_seconds() - begin;
    return c;
}
