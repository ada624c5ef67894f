/* The reference of the check. Every rank trains the whole check model alone, on the host, on its share of the
 * sequences. MPI sums the gradients in double, without the transfers under test. */
#pragma once
#include "plan/model/check_case.h"
#include "train/measure.h"

enum { CHECK_MOMENTS = 2 }; /* gradients are kept of the first and the fourth step */

typedef struct {
    bench_case given;                          /* single-rank case */
    int64_t sequences, own_sequences;          /* of the global batch; of this rank in the run, 0 if it takes no part */
    int64_t data_ranks, data_rank, microbatch; /* layout of the run's sequences; see reference_sequence */
    int rows;
    int64_t *base;    /* [rows + 1] start of each parameter in arrays of [values] */
    char (*name)[48]; /* [rows] */
    int64_t values;
    double *loss;                    /* [CHECK_STEPS, own_sequences] */
    double total_loss[CHECK_STEPS];  /* of all sequences */
    double norm[CHECK_STEPS];        /* gradient norm of each step */
    double *gradient[CHECK_MOMENTS]; /* [values] summed over all ranks, unclipped, before rounding */
    double *weight;                  /* [values] after the last step (master where there is one) */
    double *first_weight;            /* [values] before the first step */
    mesh alone;                      /* alone, measured, trainer: freed by reference_end */
    measure measured;
    trainer trainer;
    int64_t computed_sequences; /* of this rank's reference */
    double *gradient_sum;
} reference;

/* Returns the number in the global batch of own sequence i, in the order of stage.loss. */
int64_t reference_sequence(const reference *r, int64_t i);
/* Sums values of sequences over all ranks. This rank contributes value[count] for sequence[count]. own[own_sequences]
 * receives the sums of its own sequences. Returns the sum over all sequences. Collective over the world. */
double reference_sum_losses(const reference *r, const int64_t *sequence, const double *value, int64_t count,
                            double *own);

/* Builds the reference of `check`, the check model's case, in its precision or in FP32. choices: choices of experts in
 * the calibration of FP8 (routing_calibration), or NULL. Collective over the world. */
void reference_open(reference *r, const bench_case *check, bool fp32, const int32_t *choices);
/* Computes the next step; its number is `step`. With experts, call routing_give first. Collective over the world. */
void reference_step(reference *r, int step);
/* Frees the trainer; results stay until reference_free. */
void reference_end(reference *r);
void reference_free(reference *r);
/* Returns n zeros, owned by the caller. */
double *reference_doubles(int64_t n);
