/* Runs a rank's steps on paper with one wait left out. */
#pragma once
#include "trained.h"

/* The wait to leave out: number `index` (from 0; -1: none) of a step on a rank. */
typedef struct {
    int rank, step;
    int64_t index;
} place;

/* Number of waits in that step; the hazard checker's report for all steps; before: the operation after the wait. */
typedef struct {
    int64_t waits;
    hazard_report hazards;
    char before[200];
} paper;

static inline paper on_paper(const bench_case *c, int steps, place dropped)
{
    paper result = { 0 };
    mesh m;
    trainer t;
    arena a;
    mesh_open(&m, &c->layout, dropped.rank, MESH_PAPER);
    arena_open(&a, NULL, 0);
    machine *on = machine_open(&(machine_options){ .on_paper = true, .world_rank = dropped.rank });
    trainer_open(&t, c, &m, on, &a);
    trainer_initialize(&t);
    for (int s = 0; s < steps; s++) {
        prove_drop_wait(on, s == dropped.step ? dropped.index : -1);
        trainer_step(&t);
        if (s == dropped.step) result.waits = machine_waits(on);
    }
    result.hazards = *machine_hazards(on);
    if (dropped.index >= 0) op_describe(prove_unwaited(on), result.before, sizeof result.before);
    trainer_close(&t);
    machine_close(on);
    mesh_close(&m);
    return result;
}
