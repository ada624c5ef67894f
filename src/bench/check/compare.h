/* A trainer's gradients, weights and losses against the reference's, parameter by parameter and rank by rank. */
#pragma once
#include "bench/check/reference.h"
#include "train/trainer.h"

/* The worst parameter (or sequence) and the rank whose own part differs most there. */
typedef struct {
    double r;
    int row;
    int rank;
} worst_row;

/* r = |x - target| / (|target - start| + 1e-3 |whole target - start|) per parameter, over the elements that the ranks'
 * optimizers own, and once more over each rank's own ones, so that one rank cannot hide behind many; the largest is
 * returned, on all ranks alike. x: reduced gradients, or weights (master where there is one); not of rows that move
 * nothing (plan/model/params.h). start NULL: zero. t NULL: this rank takes no part. Collective over the world. Not
 * finite counts as 1e100.
 * COMPARE_ALONG: of gradients |<x - target, target>| / (|target| + 1e-3 |whole target|)^2 instead, where a parameter,
 * or a rank's own part of it, has ALONG_ELEMENTS or more. Rounding of so many hardly has a part along the gradient; a
 * contribution that is missing, or another's, has. */
typedef enum { COMPARE_GRADIENT, COMPARE_ALONG, COMPARE_WEIGHT } compared;
enum { ALONG_ELEMENTS = 2048 };
worst_row compare_rows(const trainer *t, const reference *r, compared what, const double *target, const double *start);

/* A digest of the bits of this rank's weights, masters included. Between steps: it uses the place of the norm's sum. */
uint64_t compare_digest(const trainer *t);

/* |loss - reference| / |reference| per sequence of one step; row is the sequence. Collective over the world. */
worst_row compare_losses(const trainer *t, const reference *r, int step);
/* The same for a step's mean loss and gradient norm as every rank reports them. Collective over the world. */
worst_row compare_mean_loss(const trainer *t, const reference *r, int step);
worst_row compare_norm(const trainer *t, const reference *r, int step);
/* The largest of what the ranks bring, and whose it is. Collective over the world. Not finite counts as 1e100. */
worst_row compare_largest(double own);
