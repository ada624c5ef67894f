/* Trains a deck's case on a mesh of the first ranks of the world and collects what tests compare:
 * losses, norms, and whole gradients and weights in the logical order of the parameter table. */
#pragma once
#include "base/fail.h"
#include "machine/world.h"
#include "plan/deck.h"
#include "train/gradient.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAINED_STEPS = 32, TRAINED_ROWS = 64 };
typedef struct {
    int64_t steps;
    double loss[TRAINED_STEPS], norm[TRAINED_STEPS];
    int rows; int64_t base[TRAINED_ROWS + 1]; char name[TRAINED_ROWS][48];
    double *gradient, *weight;      /* [base[rows]]: gradient of step gradient_step, weights after the last step */
    int64_t hazards, strikes, waits;
    char hazard[512];
    size_t arena_bytes;
} trained;

typedef struct { int64_t steps, gradient_step; bool hostile; uint32_t order_seed; bool prove_access; strike strike; int64_t drop_wait; } training;

/* The first case of the deck text, or the end of the test with the deck's complaints. */
static inline bench_case case_of(const char *text, int ranks)
{
    deck_source source = { .name = "test", .text = text, .length = strlen(text), .ranks = ranks };
    deck d = deck_read(&source);
    for (int i = 0; i < d.messages; i++) fprintf(stderr, "%s\n", d.message[i].line);
    if (d.messages || !d.cases || d.item[0].skipped[0] || d.item[0].not_built[0]) FAIL("no case: %s%s", d.cases ? d.item[0].skipped : "", d.cases ? d.item[0].not_built : "");
    bench_case c = d.item[0];
    deck_free(&d);
    return c;
}

static inline void trained_open(trained *r, const bench_case *c)
{
    mesh_layout alone = { .degree = { 1, 1, 1, 1, 1 }, .expert = 1, .chunks_per_stage = 1, .ranks = 1 };
    mesh m;
    arena a;
    param_table t;
    *r = (trained){ 0 };
    mesh_open(&m, &alone, 0, false);
    arena_open(&a, NULL, 0);
    param_table_open(&t, c, &m, &a);
    r->rows = t.rows;
    if (t.rows > TRAINED_ROWS) FAIL("the test model has too many parameters");
    for (int i = 0; i < t.rows; i++) {
        r->base[i + 1] = r->base[i] + t.row[i].rows * t.row[i].columns;
        memcpy(r->name[i], t.row[i].name, sizeof r->name[i]);
    }
    r->gradient = calloc((size_t)r->base[r->rows], sizeof(double));
    r->weight = calloc((size_t)r->base[r->rows], sizeof(double));
    param_table_close(&t);
    mesh_close(&m);
}

static inline void trained_close(trained *r)
{
    free(r->gradient);
    free(r->weight);
}

/* This rank's owned elements, once each over the ranks of the mesh. */
static inline void take_rows(const trainer *t, const trained *r, bool gradient, double *out)
{
    const param_table *p = &t->stage.params;
    for (int i = 0; i < p->rows; i++) {
        const bucket *b = &p->buckets[p->row[i].bucket];
        bool first = !b->replicated || t->mesh->at[AXIS_TENSOR] == 0;
        if (b->shard_elements == b->elements && t->mesh->gradient.rank > 0) first = false;
        fragment f = param_fragment(p, i);
        tensor x = gradient ? gradient_shard(b) : tensor_present(&b->master) ? b->master : tensor_slice(b->weight, 0, b->shard_first, b->shard_elements);
        for (int64_t k = f.first; first && k < f.first + f.count; k++) {
            int64_t logical = param_logical_index(&p->row[i], k);
            if (logical >= 0) out[r->base[i] + logical] = tensor_value(&x, p->row[i].offset + k - b->shard_first);
        }
    }
}

/* Collective over the world. c must fit the world. */
static inline void train_case(trained *r, const bench_case *c, const training *how)
{
    trainer t;
    mesh m;
    trained_open(r, c);
    r->steps = how->steps;
    mesh_open(&m, &c->layout, world_rank(), true);
    trainer_options o = { .machine = { .hostile = how->hostile, .order_seed = how->order_seed, .prove_access = how->prove_access,
                                       .world_rank = world_rank() }, .strike = how->strike };
    if (m.takes_part) {
        trainer_build(&t, c, &m, &o);
        trainer_initialize(&t);
        machine_drop_wait(t.machine, how->drop_wait ? how->drop_wait - 1 : -1);
        r->arena_bytes = t.arena.used;
    }
    for (int64_t s = 0; m.takes_part && s < how->steps; s++) {
        mark_sync(trainer_step(&t));
        r->loss[s] = trainer_report(&t, s)[SCALAR_LOSS];
        r->norm[s] = trainer_report(&t, s)[SCALAR_NORM];
        if (s == how->gradient_step) take_rows(&t, r, true, r->gradient);
    }
    if (m.takes_part) {
        r->waits = machine_waits(t.machine);
        take_rows(&t, r, false, r->weight);
        const hazard_report *h = machine_hazards(t.machine);
        r->hazards = h->count;
        if (h->count) snprintf(r->hazard, sizeof r->hazard, "%s", h->sentence[0]);
        r->strikes = machine_strikes(t.machine);
        trainer_dismantle(&t);
    }
    mesh_close(&m);
    world_sum(r->gradient, r->base[r->rows]);
    world_sum(r->weight, r->base[r->rows]);
    world_broadcast(r->loss, sizeof r->loss, 0);
    world_broadcast(r->norm, sizeof r->norm, 0);
}

/* r of design part 6 for the worst parameter; name: of it. */
static inline double worst_ratio(const trained *x, const double *got, const double *want, const char **name)
{
    double whole = 0.0, worst = 0.0;
    for (int64_t k = 0; k < x->base[x->rows]; k++) whole += want[k] * want[k];
    for (int i = 0; i < x->rows; i++) {
        double d = 0.0, n = 0.0;
        for (int64_t k = x->base[i]; k < x->base[i + 1]; k++) d += (got[k] - want[k]) * (got[k] - want[k]), n += want[k] * want[k];
        double ratio = sqrt(d) / (sqrt(n) + 1e-3 * sqrt(whole));
        if (!(ratio <= worst)) worst = ratio, *name = x->name[i];
    }
    return worst;
}
