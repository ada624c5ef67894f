/* A case on paper, then in memory. The measure lays one rank's share out and steps it with the code of a run, on a
 * machine that runs nothing. Its figures are therefore those of a run, which is built from them. */
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
    fault fault;                 /* the given fault; on the struck rank completed with the transfer that it names */
} measure;

/* Measures a case. m may be connected or not; its groups' transfers are numbered anew afterwards. Not collective. */
measure measure_case(const bench_case *c, mesh *m, const trainer_options *o);
void measure_free(measure *r);

/* Takes one block of memory of the measured size, lays the case out in it, gives queues their scratch and prepares the
 * machine for the noted operations. r: of the same case, mesh and machine. Collective over the mesh. With delayed
 * scaling of FP8, a BF16 trainer first computes the gradients of the first step. trainer_initialize takes their amaxes
 * (first_amax), and until the first step a check model's mixture.choices are its choices. */
void trainer_build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o, const measure *r);
void trainer_dismantle(trainer *t); /* closes trainer, machine and memory of trainer_build */
