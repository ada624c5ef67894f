/* The reference of the check: every rank trains, alone and on the host, the unsharded check model on its share of the
 * sequences; gradients are summed by MPI in double, never through the fabric under test. */
#pragma once
#include "plan/model/check_case.h"
#include "train/measure.h"

enum { CHECK_MOMENTS = 2 }; /* gradients kept at the first and the fourth step */

typedef struct {
    bench_case given;                          /* single-rank case */
    int64_t sequences, own_sequences;          /* of the global batch; of this rank's data rank, 0 if it sits out */
    int64_t data_ranks, data_rank, microbatch; /* of the check's mesh: sequence = (m data_ranks + data_rank) b + row */
    int rows;
    int64_t *base;    /* [rows + 1] start of each parameter in the arrays below; rows of the parameter table */
    char (*name)[48]; /* [rows] */
    int64_t values;
    double *loss;                    /* [CHECK_STEPS, own_sequences] */
    double total_loss[CHECK_STEPS];  /* of all sequences */
    double norm[CHECK_STEPS];        /* of the gradient below, at every step */
    double *gradient[CHECK_MOMENTS]; /* [values] summed over all ranks, unclipped, before rounding */
    double *weight;                  /* [values] after the last step (master where there is one) */
    double *first_weight;            /* [values] before the first step */
    mesh alone;                      /* from reference_open to reference_end: who computes it */
    measure measured;
    trainer trainer;
    int64_t share; /* sequences that this rank computes */
    double *sum;
} reference;

/* The number in the global batch of own sequence i, in the order of stage.loss. */
int64_t reference_sequence(const reference *r, int64_t i);
/* own[i] = the sum over the world of what ranks bring to own sequence i; returns the sum over all sequences, on all
 * ranks alike. This rank brings `count` values for the sequences of those numbers. Collective over the world. */
double reference_sum_losses(const reference *r, const int64_t *sequence, const double *value, int64_t count,
                            double *own);

/* Collective over the world. check: the check model's case; fp32: in FP32 whatever its precision. Steps are computed
 * one by one, from 0, of a mixture of experts after what was decided there is given (bench/check/routing.h); choices:
 * likewise of the calibration of FP8, or NULL. */
void reference_open(reference *r, const bench_case *check, bool fp32, const int32_t *choices);
void reference_step(reference *r, int step);
void reference_end(reference *r);
void reference_free(reference *r);
/* Zeros, for the comparison with it; free. */
double *reference_doubles(int64_t n);
