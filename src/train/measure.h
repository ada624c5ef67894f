/* A case on paper, then in memory: one rank's share laid out and stepped by the code of a run, on a machine that runs
 * nothing. So its figures are those of a run, which is built from them. */
#pragma once
#include "train/trainer.h"

typedef struct measure {
    arena arena;                 /* closed; used, by_kind: exact bytes, scratch included */
    preparation prepared;        /* scratch of each queue of the machine, in its order, padded; the operations noted */
    int64_t parameters;          /* that this rank holds, padding excluded */
    int64_t history;             /* operations of the longest queue, set-up and all measured steps together */
    tally step;                  /* one steady step: operations, flops, messages, bytes; no seconds */
    hazard_report hazards;       /* of set-up and all measured steps */
    size_t window;               /* bytes that all ranks of the stage take, if their collectives lie alike; else 0 */
    struct measure *calibration; /* of FP8: its first scales are found by a BF16 trainer; else NULL */
    fault fault;                 /* as given, completed on the struck rank with the transfer it names */
} measure;

/* m: connected or not; its groups' transfers are numbered anew afterwards. Not collective. */
measure measure_case(const bench_case *c, mesh *m, const trainer_options *o);
void measure_free(measure *r);

/* Takes one block of memory, as large as measured, lays the case out in it, gives queues their scratch and makes the
 * machine ready for what was noted. r: of the same case, mesh and machine. Of FP8 with delayed scaling, before: a BF16
 * trainer's gradients of the first step, whose amaxes trainer_initialize takes (first_amax); until the first step a
 * check model's mixture.choices are that one's. */
void trainer_build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o, const measure *r);
void trainer_dismantle(trainer *t); /* closes trainer, machine and memory of trainer_build */
