/* The reference of the check: every rank trains, alone and on the host, the unsharded check model on its share of the
 * sequences; gradients are summed by MPI in double, never through the fabric under test. */
#pragma once
#include "plan/bench_case.h"

enum { CHECK_MOMENTS = 2 };        /* gradients kept at the first and the fourth step */

typedef struct {
    bench_case given;               /* single-rank case */
    int64_t sequences;              /* of the global batch */
    int rows; int64_t *base;        /* [rows + 1] start of each parameter in the arrays below; rows of the parameter table */
    char (*name)[48];               /* [rows] */
    int64_t values;
    double *loss;                   /* [CHECK_STEPS, sequences] */
    double norm[CHECK_STEPS];       /* of the gradient below, at every step */
    double *gradient[CHECK_MOMENTS];/* [values] summed over all ranks, unclipped, before rounding */
    double *weight;                 /* [values] after the last step (master where there is one) */
    double *first_weight;           /* [values] before the first step */
} reference;

/* Collective over the world. check: the check model's case; fp32: in FP32 whatever its precision. */
void reference_compute(reference *r, const bench_case *check, bool fp32);
void reference_free(reference *r);
