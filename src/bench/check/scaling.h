/* FP8 scales in the check. With delayed scaling the run's scales are compared with those that follow from the
 * reference's amaxes; then the reference takes the run's. With current scaling the reference computes its own, except
 * those of experts, which it takes from the run. */
#pragma once
#include "train/trainer.h"

/* Tensors whose scales differ: their number (flips), the largest distance, and its tensor. The distance of exact scales
 * is their relative difference. Scales that are powers of two may differ by a factor of two if largest / amax is near a
 * power of two: then the distance is the relative difference of largest / amax from that power. Others are infinite. */
typedef struct {
    int64_t flips;
    double distance;
    int64_t tensor;
} scale_difference;

/* The run's scales of the next step: [tensors], owned by the caller, the same on all ranks. unlike: number of ranks
 * that have other scales than rank 0, or a wrong inverse. */
typedef struct {
    double *scale;
    int64_t unlike;
} run_scales;
/* t is NULL on a rank that takes no part. Collective over the world. */
run_scales scaling_of_run(const trainer *t, const bench_case *c);
/* Compares `scale` with the scales of t, a reference's trainer, before a step; then t takes `scale`. */
scale_difference scaling_give(trainer *t, const double *scale);
/* Gives the run's scales of experts to `alone`, a reference's trainer, if data ranks scale experts separately
 * (imitated_ranks). Call it after the run's step, with current scaling only. t is NULL on a rank that takes no part.
 * Collective over the world. */
void scaling_give_current(const trainer *t, const bench_case *check, const trainer *alone);
/* Replaces amax[tensors] by the maxima over all ranks. Collective over the world. */
void scaling_reduce(int32_t *amax, int64_t tensors);
/* Writes the name of tensor `number`: "layers.0.qkv, weight". Returns text. */
const char *scaling_name(const bench_case *c, int64_t number, char *text, size_t length);
