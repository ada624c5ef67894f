/* FP8's scales in the check: those of the run, against what the reference's amaxes would make of them. The reference
 * then takes the run's. Scales of current microbatches are the reference's own, and the run's are alike on the ranks
 * that exchange codes. */
#pragma once
#include "train/trainer.h"

/* Of the tensors whose scales differ: their number, and the largest distance. Powers of two may be a factor of two
 * apart where the reference's largest / amax is near a power of two: its distance from that, relative. Exact scales:
 * their relative difference. Anything else is infinitely far. tensor: the one of the largest distance. */
typedef struct {
    int64_t flips;
    double distance;
    int64_t tensor;
} scale_difference;

/* The run's scales of the step to come, on all ranks alike: [tensors], owned by the caller; and how many ranks' own are
 * not rank 0's, or not with their inverses. t NULL: this rank takes no part. Collective over the world. */
typedef struct {
    double *scale;
    int64_t unlike;
} run_scales;
run_scales scaling_of_run(const trainer *t, const bench_case *c);
/* Against those of a trainer of all tokens by itself, before a step; which then takes `scale`. */
scale_difference scaling_give(trainer *t, const double *scale);
/* Current scaling, after the run's step: gives the scales of the parts of the experts to a trainer that computes as
 * reference.h says, sequence by sequence (imitated_ranks). Collective over the world; t NULL: takes no part. */
void scaling_give_current(const trainer *t, const bench_case *check, const trainer *alone);
/* The amaxes of all references become those of the whole batch. Collective over the world. */
void scaling_reduce(int32_t *amax, int64_t tensors);
/* Of tensor `number`: "layers.0.qkv, weight"; returns text. */
const char *scaling_name(const bench_case *c, int64_t number, char *text, size_t length);
