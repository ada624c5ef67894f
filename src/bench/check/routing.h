/* Choices of experts in the check: the references take those of the run, and report where they would choose others. */
#pragma once
#include "bench/check/reference.h"
#include "train/trainer.h"

/* Writes this rank's choices of one sequence in the last step to codes[layers, positions]. A code holds both choices of
 * a token; places that this rank does not compute are unchanged. The sum over ranks of zeroed codes is complete. */
void routing_collect(const trainer *t, int64_t sequence, double *codes);
/* Gives a reference the complete codes of one sequence, which is its whole microbatch, before its next step. */
void routing_write(const trainer *t, int64_t microbatch, const double *codes);
/* Gives the choices of the run's last step to the references. t is NULL on a rank that takes no part. Collective over
 * the world. */
void routing_give(const trainer *t, reference of[], int references);
/* Returns the choices of the calibration of FP8 for reference_open, owned by the caller. Call it before the first step.
 * t is NULL on a rank that takes no part. Collective over the world. */
int32_t *routing_calibration(const trainer *t, const bench_case *check);
/* Tokens for which this rank's reference would have chosen another expert: their number, and the largest excess of that
 * expert's logit over a chosen one's. */
typedef struct {
    int64_t flips;
    double margin;
} routing_flips;
routing_flips routing_compare(const trainer *t);
