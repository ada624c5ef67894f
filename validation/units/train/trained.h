/* Trains the case of a deck on a mesh of the first ranks and gives all ranks what tests compare: losses, norms, and
 * whole gradients and weights in the logical order of the parameter table. */
#pragma once
#include "base/fail.h"
#include "base/fp8.h"
#include "bench/check/compare.h"
#include "bench/check/routing.h"
#include "bench/check/scaling.h"
#include "bench/launch/case_machine.h"
#include "machine/prove/prove.h"
#include "machine/world.h"
#include "plan/deck/deck.h"
#include "plan/model/check_case.h"
#include "train/measure.h"
#include "units/machine/sharing.h"
#include "units/test_length.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TRAINED_STEPS = 32, TRAINED_ROWS = 256, TRAINED_SEQUENCES = 16, TRAINED_DECK = 2048 };
typedef struct {
    int64_t steps, sequences;
    double loss[TRAINED_STEPS], norm[TRAINED_STEPS];
    double balance[TRAINED_STEPS], dropped[TRAINED_STEPS]; /* with experts only */
    double sequence_loss[TRAINED_STEPS]
                        [TRAINED_SEQUENCES]; /* summed over positions; kept if the batch is small enough */
    int rows;
    int64_t base[TRAINED_ROWS + 1];
    char name[TRAINED_ROWS][48];
    bool zero_gradient[TRAINED_ROWS]; /* not compared (plan/model/params.h) */
    double *gradient,
        *last_gradient; /* [base[rows]]: of the first and of the last step, summed over ranks, unclipped */
    double *first_weight,
        *weight; /* [base[rows]]: before the first step and after the last one; masters where there are */
    /* Models with experts: choices as in bench/check/routing.h, [steps, sequences, layers, positions]; NULL if not
     * recorded. flips: for given choices, how many differ from those of the run's own logits, and by which margin. */
    int64_t of_sequence; /* choices: layers x positions */
    double *choices;
    routing_flips flips;
    /* FP8 with delayed scaling: [steps, tensors]. scales: for given scales, the difference from the run's own scales
     * (bench/check/scaling.h) over all steps. */
    int64_t tensors;
    double *scale;
    scale_difference scales;
    double first_distance;      /* of the first step's scales */
    double whole_weight_errors; /* elements of any rank's gathered weights that differ from the owner's rounded value */
    double hazards, faults;     /* over all ranks */
    int64_t waits;              /* of the last step on this rank */
    char hazard[512];           /* the first one on this rank */
    size_t arena_bytes;         /* on this rank */
} trained;

/* Allowed error of FP8's first scales if one rank's calibration routes tokens by itself. One token at another expert
 * moved an amax by 6.5e-2; twice that. (The check's reference takes the run's choices.) */
static const double routed_alone = 0x1p-3;

/* choices: of another run, given to one rank with one sequence per microbatch. drop_wait: number of the wait (from 1)
 * to drop in step drop_step on this rank; 0: none */
typedef struct {
    int64_t steps;
    bool hostile;
    uint32_t order_seed;
    bool prove_access;
    fault fault;
    int64_t drop_wait, drop_step;
    bool halves_scales;              /* FP8: after the last step */
    const trained *choices, *scales; /* from another run */
    int64_t spans;                   /* operations of which times are kept */
    void (*examine)(const trainer *t, void *result);
    void *result; /* of `examine`, which every participating rank calls after the last step; NULL: not called */
    bool alone;   /* a case of one rank runs on rank `alone_on` of the world */
    int alone_on;
} training;

/* Returns true on GPUs or their emulator, if the environment has XGSW_BACKEND=cuda; false on the host. */
static inline bool tests_cuda(void)
{
    const char *backend = getenv("XGSW_BACKEND");
    return backend && strcmp(backend, "cuda") == 0;
}

/* Returns the seed of random tests: the number of the day, or XGSW_TEST_SEED. Collective over the world; rank 0 prints
 * it. */
static inline uint32_t seed_of_test(void)
{
    enum { SECONDS_A_DAY = 86400 };
    const char *given = getenv("XGSW_TEST_SEED");
    uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)(time(NULL) / SECONDS_A_DAY);
    world_broadcast(&seed, sizeof seed, 0);
    if (world_rank() == 0) printf("# XGSW_TEST_SEED=%u\n", seed);
    return seed;
}

static inline machine_kind kind_of(const bench_case *c)
{
    return c->backend == BACKEND_CUDA ? MACHINE_CUDA : MACHINE_HOST;
}

/* Returns the first case of the deck text. Fails the test with the deck's messages if there is none. */
static inline bench_case case_of(const char *text, int ranks)
{
    deck_source source = {
        .name = "test", .text = text, .length = strlen(text), .ranks = ranks, .cuda_usable = tests_cuda()
    };
    deck d = deck_read(&source);
    for (int i = 0; i < d.messages; i++) fprintf(stderr, "%s\n", d.message[i].line);
    if (d.messages || !d.cases || d.item[0].skipped[0]) FAIL("no case: %s", d.cases ? d.item[0].skipped : "");
    bench_case c = d.item[0];
    deck_free(&d);
    if (tests_cuda()) c.backend = BACKEND_CUDA;
    return c;
}

/* Only check models record the choices of their routers (model/expert_steps.c). */
static inline bool keeps_choices(const bench_case *c) { return c->model.experts && c->size == SIZE_CHECK; }

static inline double *choices_at(const trained *r, int64_t step, int64_t sequence)
{
    return r->choices + (step * r->sequences + sequence) * r->of_sequence;
}

/* Limits learned positions to those of a check model: the recipe's 16384 rows would dominate a small model. */
static inline bench_case with_few_positions(bench_case c)
{
    if (c.model.position_rows) c.model.position_rows = 2 * c.model.sequence;
    return c;
}

static inline void trained_open(trained *r, const bench_case *c)
{
    mesh m;
    arena a;
    param_table t;
    *r = (trained){ .sequences = c->global_batch };
    mesh_open_alone(&m, 0);
    arena_open(&a, NULL, 0);
    bench_case alone = single_rank_case(c, false);
    param_table_open(&t, &alone, &m, &a);
    r->rows = t.rows;
    if (t.rows > TRAINED_ROWS) FAIL("the test model has too many parameters");
    for (int i = 0; i < t.rows; i++) {
        r->base[i + 1] = r->base[i] + t.row[i].rule.rows * t.row[i].rule.columns;
        memcpy(r->name[i], t.row[i].name, sizeof r->name[i]);
        r->zero_gradient[i] = t.row[i].rule.zero_gradient;
    }
    double **values[] = { &r->gradient, &r->last_gradient, &r->first_weight, &r->weight };
    for (int i = 0; i < 4; i++)
        if (!(*values[i] = calloc((size_t)r->base[r->rows], sizeof(double))))
            FAIL("no memory for the values of a test model");
    param_table_close(&t);
    mesh_close(&m);
    r->tensors = fp8_delays(c) ? fp8_tensors(c) : 0;
    r->scale = calloc((size_t)(TRAINED_STEPS * r->tensors) + 1, sizeof(double));
    if (!r->scale) FAIL("no memory for the scales of a test model");
    if (!keeps_choices(c)) return;
    r->of_sequence = c->model.layers * c->model.sequence;
    r->choices = calloc((size_t)(TRAINED_STEPS * r->sequences * r->of_sequence), sizeof(double));
    if (!r->choices) FAIL("no memory for the choices of a test model");
}

static inline void trained_close(trained *r)
{
    free(r->choices);
    free(r->scale);
    free(r->gradient);
    free(r->last_gradient);
    free(r->first_weight);
    free(r->weight);
}

/* Copies this rank's owned elements, each once over the mesh. shard: returns the owned part of a bucket. */
static inline void take_rows(const trainer *t, const trained *r, tensor (*shard)(const bucket *), double *out)
{
    const param_table *p = &t->stage.params;
    for (int i = 0; i < p->rows; i++) {
        const bucket *b = &p->buckets[p->row[i].bucket];
        fragment f = param_owned(p, i);
        if (!bucket_first_owner(b) || f.count == 0) continue;
        tensor x = param_view(&p->row[i], f, shard(b), b->shard_first);
        x = machine_view(t->machine, x);
        for (param_run run = { 0 }; param_next_run(&p->row[i], f, &run);)
            for (int64_t k = 0; k < run.count && run.logical >= 0; k++)
                out[r->base[p->row[i].logical] + run.logical + k] = tensor_value(&x, run.local + k - f.first);
        machine_view_end(t->machine, &x);
    }
}

static inline void halve_scales(const trained *r, trainer *t)
{
    float *all_factors = calloc((size_t)(r->tensors * FP8_FACTORS), sizeof *all_factors);
    const float *own = trainer_scales(t);
    if (!all_factors) FAIL("no memory for the scales of a test model");
    for (int64_t i = 0; i < r->tensors; i++)
        fp8_set_factors(all_factors + i * FP8_FACTORS, own[i * FP8_FACTORS + FP8_SCALE] / 2.0f);
    trainer_set_scales(t, all_factors);
    free(all_factors);
}

/* Returns a weight as its type stores it. FP8 values are made from BF16, and returned as numbers. */
static double as_kept(const trainer *t, const param *p, double value)
{
    dtype type = t->stage.params.buckets[p->bucket].weight.type;
    float bf16 = bf16_widen(bf16_round((float)value));
    if (type == E4M3) return (double)e4m3_widen(e4m3_round(bf16 * t->scale[p->fp8_tensor * FP8_FACTORS + FP8_SCALE]));
    return type == BF16 ? (double)bf16 : value;
}

/* Counts elements of this rank's whole weights that differ from the owner's rounded value, and padding that is not
 * zero. */
static inline double count_weight_errors(const trainer *t, const trained *r)
{
    const param_table *p = &t->stage.params;
    double errors = 0.0;
    if (r->tensors) trainer_scales(t);
    for (int i = 0; i < p->rows; i++) {
        const param *row = &p->row[i];
        const bucket *b = &p->buckets[row->bucket];
        fragment f = param_held(p, i);
        tensor whole = machine_view(t->machine, param_view(row, f, b->weight, bucket_held(b).first));
        for (param_run run = { 0 }; param_next_run(row, f, &run);)
            for (int64_t k = 0; k < run.count; k++) {
                double want = run.logical < 0 ? 0.0 : r->weight[r->base[row->logical] + run.logical + k];
                errors += tensor_value(&whole, run.local + k - f.first) != as_kept(t, row, want);
            }
        machine_view_end(t->machine, &whole);
    }
    return errors;
}

static inline void take_step(trained *r, const trainer *t, int64_t step, int64_t steps)
{
    const bench_case *c = t->given;
    step_report report = trainer_report(t, t->steps - 1);
    r->loss[step] = report.scalar[SCALAR_LOSS];
    r->norm[step] = report.scalar[SCALAR_NORM];
    r->balance[step] = report.routed.balance;
    r->dropped[step] = report.routed.dropped;
    if (step == 0) take_rows(t, r, gradient_shard, r->gradient);
    if (step == steps - 1) take_rows(t, r, gradient_shard, r->last_gradient);
    bool tells = param_row(&t->stage.params, PARAM_HEAD, NO_LAYER) >= 0 && t->mesh->at[AXIS_TENSOR] == 0;
    tensor loss = machine_view(t->machine, t->stage.loss);
    for (int64_t i = 0; tells && i < c->microbatches * c->microbatch; i++) {
        int64_t m = i / c->microbatch,
                sample = (m * t->stage.data_ranks + t->stage.data_rank) * c->microbatch + i % c->microbatch;
        if (sample < TRAINED_SEQUENCES) r->sequence_loss[step][sample] = ((const double *)loss.data)[i];
    }
    machine_view_end(t->machine, &loss);
}

static inline void take_choices(trained *r, const trainer *t, int64_t step)
{
    for (int64_t i = 0; r->choices && i < r->sequences; i++) routing_collect(t, i, choices_at(r, step, i));
    if (!t->given->choices_given) return;
    routing_flips f = routing_compare(t);
    r->flips.flips += f.flips;
    r->flips.margin = fmax(r->flips.margin, f.margin);
}

/* Takes the scales of the next step, equal on all ranks, and sets those that `how` gives. */
static inline void take_scales(trained *r, trainer *t, int64_t step, const training *how)
{
    const float *own = r->tensors ? trainer_scales(t) : NULL;
    for (int64_t i = 0; i < r->tensors; i++) r->scale[step * r->tensors + i] = (double)own[i * FP8_FACTORS + FP8_SCALE];
    if (!how->scales || !r->tensors) return;
    scale_difference d = scaling_give(t, how->scales->scale + step * r->tensors);
    r->scales.flips += d.flips;
    if (step == 0) r->first_distance = d.distance;
    if (!(d.distance <= r->scales.distance)) r->scales.distance = d.distance;
}

static inline void take_machine(trained *r, const trainer *t)
{
    const hazard_report *h = machine_hazards(t->machine);
    r->waits = machine_waits(t->machine);
    r->hazards = (double)h->count;
    if (h->count) snprintf(r->hazard, sizeof r->hazard, "%s", h->sentence[0]);
    r->faults = (double)prove_faults(t->machine);
    r->arena_bytes = t->arena.used;
}

/* Builds the trainer on the participating ranks. Collective over the world; c must fit the world. */
static inline void build_trainer(trainer *t, mesh *m, const bench_case *c, const training *how)
{
    *t = (trainer){ 0 };
    machine_set_blocks(case_blocks(c));
    if (!how->alone) mesh_open(m, &c->layout, world_rank(), mesh_on(kind_of(c)));
    else if (world_rank() == how->alone_on) mesh_open_alone(m, world_rank());
    else *m = (mesh){ .connection = MESH_PAPER };
    trainer_options o = { .machine = { .kind = kind_of(c),
                                       .hostile = how->hostile,
                                       .order_seed = how->order_seed,
                                       .prove_access = how->prove_access,
                                       .span_capacity = how->spans,
                                       .world_rank = world_rank() },
                          .fault = how->fault };
    if (!m->takes_part) return;
    measure share = measure_case(c, m, &o);
    trainer_build(t, c, m, &o, &share);
    measure_free(&share);
    trainer_initialize(t);
}

/* Runs steps from .. end - 1. */
static inline void take_steps(trained *r, trainer *t, int64_t from, int64_t end, const training *how)
{
    for (int64_t s = from; s < end; s++) {
        for (int64_t i = 0; how->choices && i < r->sequences; i++) routing_write(t, i, choices_at(how->choices, s, i));
        take_scales(r, t, s, how);
        prove_drop_wait(t->machine, s == how->drop_step ? how->drop_wait - 1 : -1);
        mark_sync(trainer_step(t));
        take_step(r, t, s, how->steps);
        if (t->given->model.experts) take_choices(r, t, s);
    }
    machine_sync(t->machine);
}

/* Gives all ranks the results of the steps and closes the trainer. Collective over the world. */
static inline void end_training(trained *r, trainer *t, mesh *m, const training *how)
{
    if (m->takes_part) take_rows(t, r, master_shard, r->weight);
    double *values[] = { r->gradient, r->last_gradient, r->first_weight, r->weight };
    for (int i = 0; i < 4; i++) world_sum(values[i], r->base[r->rows]);
    world_sum(r->sequence_loss[0], TRAINED_STEPS * TRAINED_SEQUENCES);
    if (r->choices) world_sum(r->choices, how->steps * r->sequences * r->of_sequence);
    int root = how->alone ? how->alone_on : 0;
    world_broadcast(&r->flips, sizeof r->flips, root);
    world_broadcast(&r->scales, sizeof r->scales, root);
    world_broadcast(&r->first_distance, sizeof r->first_distance, root);
    world_broadcast(r->scale, (size_t)(TRAINED_STEPS * r->tensors) * sizeof *r->scale, root);
    world_broadcast(r->loss, sizeof r->loss, root);
    world_broadcast(r->norm, sizeof r->norm, root);
    world_broadcast(r->balance, sizeof r->balance, root);
    world_broadcast(r->dropped, sizeof r->dropped, root);
    if (m->takes_part) {
        if (how->halves_scales) halve_scales(r, t);
        take_machine(r, t);
        if (how->examine) how->examine(t, how->result);
        r->whole_weight_errors = count_weight_errors(t, r);
        trainer_dismantle(t);
    }
    double found[] = { r->hazards, r->faults, r->whole_weight_errors };
    world_sum(found, 3);
    r->hazards = found[0];
    r->faults = found[1];
    r->whole_weight_errors = found[2];
    mesh_close(m);
}

/* Trains of a case what needs no other rank if how.alone. */
static inline void begin_training(trained *r, trainer *t, mesh *m, const bench_case *c, const training *how)
{
    trained_open(r, c);
    r->steps = how->steps;
    build_trainer(t, m, c, how);
    if (m->takes_part) take_rows(t, r, master_shard, r->first_weight);
    if (m->takes_part) take_steps(r, t, 0, how->steps, how);
}

/* Trains the case. Collective over the world; c must fit the world. */
static inline void train_case(trained *r, const bench_case *c, const training *how)
{
    trainer t;
    mesh m;
    begin_training(r, &t, &m, c, how);
    end_training(r, &t, &m, how);
}

/* Returns how many numbers differ between two runs of the same model. */
static inline int64_t trained_differences(const trained *a, const trained *b)
{
    const double *const left[] = { a->gradient, a->last_gradient, a->weight }, *const right[] = { b->gradient,
                                                                                                  b->last_gradient,
                                                                                                  b->weight };
    int64_t count = 0;
    for (int step = 0; step < a->steps; step++) {
        count += (a->loss[step] != b->loss[step]) + (a->norm[step] != b->norm[step]);
        for (int i = 0; i < TRAINED_SEQUENCES; i++) count += a->sequence_loss[step][i] != b->sequence_loss[step][i];
    }
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < a->base[a->rows]; k++) count += left[i][k] != right[i][k];
    for (int64_t k = 0; k < a->steps * a->tensors; k++) count += a->scale[k] != b->scale[k];
    return count;
}

/* Returns the larger number, or NaN if either is NaN, so that a limit on the worst of many then fails. */
static inline double worst_of(double a, double b) { return isnan(a) || b <= a ? a : b; }

/* Returns whether every sequence of every step has a positive loss, that is, no rank omitted one. */
static inline bool losses_are_positive(const trained *x)
{
    int64_t kept = x->sequences < TRAINED_SEQUENCES ? x->sequences : TRAINED_SEQUENCES;
    bool positive = true;
    for (int64_t step = 0; step < x->steps; step++)
        for (int64_t i = 0; i < kept; i++) positive = positive && x->sequence_loss[step][i] > 0.0;
    return positive;
}

/* Returns r (bench/check/compare.h) of the worst parameter: |got - want| / (|want - start| + 1e-3 |whole want -
 * start|). name: its name. start NULL: zero. */
static inline double worst_change(const trained *x, const double *got, const double *want, const double *start,
                                  const char **name)
{
    double whole = 0.0, worst = 0.0;
    for (int64_t k = 0; k < x->base[x->rows]; k++)
        whole += (want[k] - (start ? start[k] : 0.0)) * (want[k] - (start ? start[k] : 0.0));
    for (int i = 0; i < x->rows; i++) {
        double d = 0.0, n = 0.0;
        for (int64_t k = x->base[i]; k < x->base[i + 1]; k++) {
            double change = want[k] - (start ? start[k] : 0.0);
            d += (got[k] - want[k]) * (got[k] - want[k]);
            n += change * change;
        }
        double ratio = x->zero_gradient[i] ? 0.0 : sqrt(d) / (sqrt(n) + 1e-3 * sqrt(whole));
        if (!isnan(worst) && !(ratio <= worst)) *name = x->name[i];
        worst = worst_of(worst, ratio);
    }
    return worst;
}

/* Returns COMPARE_ALONG (bench/check/compare.h) of the worst parameter. */
static inline double worst_along(const trained *x, const double *got, const double *want)
{
    double whole = 0.0, worst = 0.0;
    for (int64_t k = 0; k < x->base[x->rows]; k++) whole += want[k] * want[k];
    for (int i = 0; i < x->rows; i++) {
        double d = 0.0, n = 0.0;
        if (x->base[i + 1] - x->base[i] < ALONG_ELEMENTS) continue;
        for (int64_t k = x->base[i]; k < x->base[i + 1]; k++) {
            d += (got[k] - want[k]) * want[k];
            n += want[k] * want[k];
        }
        worst = worst_of(worst, fabs(d) / pow(sqrt(n) + 1e-3 * sqrt(whole), 2.0));
    }
    return worst;
}

static inline double worst_ratio(const trained *x, const double *got, const double *want, const char **name)
{
    return worst_change(x, got, want, NULL, name);
}
