/* A measure of a case, and the trainer built from it. To measure, the code of a run submits a rank's steps to a machine
 * on paper, which executes nothing. The figures are therefore exactly those of the run. */
#pragma once
#include "train/trainer.h"

typedef struct measure {
    arena arena;           /* closed; used, by_kind: exact bytes, scratch included */
    preparation prepared;  /* padded scratch of each queue, in the machine's order; the operations noted */
    int64_t parameters;    /* parameters that this rank holds, padding excluded */
    int64_t history;       /* operations of the longest queue, in set-up and all measured steps */
    tally step;            /* one steady step: operations, flops, messages, bytes; no seconds */
    hazard_report hazards; /* hazards of set-up and all measured steps */
    size_t window;         /* bytes that all ranks of the stage take, if their collectives have equal offsets; else 0 */
    struct measure *calibration; /* measure of the BF16 trainer that finds the first scales of FP8; else NULL */
    fault fault;                 /* the given fault; on the rank that it strikes, also the transfer that it names */
} measure;

/* Measures a case. Needs no communicators and is not collective; restarts the numbering of transfers (mesh_restart). */
measure measure_case(const bench_case *c, mesh *m, const trainer_options *o);
void measure_free(measure *r);

/* Returns the bytes that this rank's arena takes without scratch. Lays the case out and submits nothing, so it takes a
 * small part of the time of measure_case. */
size_t measure_layout(const bench_case *c, mesh *m, const trainer_options *o);

/* Takes one block of memory of the measured size, lays the case out in it, gives queues their scratch and prepares the
 * machine for the noted operations. r: of the same case, mesh and machine. Collective over the mesh. With delayed
 * scaling of FP8, a BF16 trainer first computes the gradients of the first step; trainer_initialize uses their amaxes
 * (first_amax). In a check model, its choices are in mixture.choices until the first step. */
void trainer_build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o, const measure *r);
void trainer_dismantle(trainer *t); /* closes trainer, machine and memory of trainer_build */
