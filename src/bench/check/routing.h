/* Choices of experts in the check. The references use the run's choices, and report where they would choose others. */
#pragma once
#include "bench/check/reference.h"
#include "train/trainer.h"

/* Writes this rank's choices of one sequence in the last step to codes[layers, positions]. Each code encodes both
 * choices of a token. Does not change positions that other ranks compute, so codes that start at 0 can be summed. */
void routing_collect(const trainer *t, int64_t sequence, double *codes);
/* Sets the choices of a reference's microbatch, which is one sequence, for its next step. codes: the sum over ranks. */
void routing_write(const trainer *t, int64_t microbatch, const double *codes);
/* Gives the choices of the run's last step to the references. t is NULL on a rank that takes no part. Collective over
 * the world. */
void routing_give(const trainer *t, reference references[], int count);
/* Returns the choices of the calibration of FP8 for reference_open, owned by the caller. Call it before the first step.
 * t is NULL on a rank that takes no part. Collective over the world. */
int32_t *routing_calibration(const trainer *t, const bench_case *check);
/* Tokens for which this rank's reference would choose another expert: their number, and the largest difference between
 * the logit of that expert and of a chosen one. */
typedef struct {
    int64_t flips;
    double margin;
} routing_flips;
routing_flips routing_compare(const trainer *t);
