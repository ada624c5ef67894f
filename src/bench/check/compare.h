/* Comparison of a trainer's gradients, weights and losses with the reference's. */
#pragma once
#include "bench/check/reference.h"
#include "train/trainer.h"

/* The largest ratio r, its parameter row or sequence, and the rank with the largest difference there. */
typedef struct {
    double r;
    int row;
    int rank;
} worst_row;

/* Returns the largest ratio over all parameters, the same on all ranks:
 *     r = |x - target| / (|target - start| + 1e-3 |whole target - start|).
 * r is computed over all elements of a parameter, and again over the elements that each rank's optimizer owns, so that
 * an error of one rank is not averaged out. x: reduced gradients, or weights (the master weight if there is one). Rows
 * that move nothing (plan/model/params.h) are skipped. target, start: [values] of r. start is zero if NULL. t is NULL
 * on a rank that takes no part. A result that is not finite counts as 1e100. Collective over the world.
 *
 * COMPARE_ALONG compares gradients by another ratio, |<x - target, target>| / (|target| + 1e-3 |whole target|)^2, and
 * skips parts with fewer than ALONG_ELEMENTS elements. Rounding errors of so many elements nearly cancel in the scalar
 * product, but a missing or wrong contribution does not. */
typedef enum { COMPARE_GRADIENT, COMPARE_ALONG, COMPARE_WEIGHT } compared;
enum { ALONG_ELEMENTS = 2048 };
worst_row compare_rows(const trainer *t, const reference *r, compared what, const double *target, const double *start);

/* Returns a digest of the bits of this rank's weights and master weights. Call it between steps only: it overwrites
 * t->squares, the sum of the gradient norm. */
uint64_t compare_digest(const trainer *t);

/* Returns the largest |loss - reference| / |reference| of the sequences of one step; row is the sequence. Collective
 * over the world. */
worst_row compare_losses(const trainer *t, const reference *r, int step);
/* Return the same for a step's mean loss and gradient norm as ranks report them. Collective over the world. */
worst_row compare_mean_loss(const trainer *t, const reference *r, int step);
worst_row compare_norm(const trainer *t, const reference *r, int step);
/* Returns the largest value of all ranks, and its rank. Not finite counts as 1e100. Collective over the world. */
worst_row compare_largest(double own);
