/* FP8 scales in the check. With delayed scaling, the run's scales are compared with those that follow from the
 * reference's amaxes. Then the reference uses the run's scales. With current scaling, the reference uses its own
 * scales, but for experts those of the run. */
#pragma once
#include "train/trainer.h"

/* Tensors whose scales differ: their number (flips), the largest distance, and its tensor. The distance of exact scales
 * is their relative difference. If scales that are powers of two differ by a factor of two, the distance is the
 * relative difference of largest / amax from the nearest power of two; if they differ by more, it is infinite. */
typedef struct {
    int64_t flips;
    double distance;
    int64_t tensor;
} scale_difference;

/* The run's scales of the next step: [tensors], owned by the caller, the same on all ranks. differing_ranks: number of
 * ranks whose scales differ from rank 0's, or have a wrong inverse. */
typedef struct {
    double *scale;
    int64_t differing_ranks;
} run_scales;
/* t is NULL on a rank that takes no part. Collective over the world. */
run_scales scaling_of_run(const trainer *t, const bench_case *c);
/* Compares `scale` with the scales of t, a reference's trainer, before a step. Then sets the scales of t to `scale`. */
scale_difference scaling_give(trainer *t, const double *scale);
/* Copies the run's scales of experts to `to`, a reference's trainer, if data ranks scale experts separately
 * (imitated_ranks). Call it after the run's step, with current scaling only. t is NULL on a rank that takes no part.
 * Collective over the world. */
void scaling_give_current(const trainer *t, const bench_case *check, const trainer *to);
/* Replaces amax[tensors] by the maxima over all ranks. Collective over the world. */
void scaling_reduce(int32_t *amax, int64_t tensors);
/* Writes the name of tensor `number`: "layers.0.qkv, weight". Returns text. */
const char *scaling_name(const bench_case *c, int64_t number, char *text, size_t length);
