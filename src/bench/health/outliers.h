/* Outliers: ranks that compute more slowly than ranks with the same work. A pure function of tables.
 *
 * Two ranks are peers if their computing operations have the same flops and bytes, within WORK_ALIKE. So ranks that
 * differ by design, such as first, middle and last stages of a pipeline, are not compared. A rank without peers is not
 * judged. In each step, a rank's own seconds are compared with the median m of its peers'. With sums over the steps,
 *     excess = sum own / sum m - 1
 * and its standard error is that of batch means (Law and Kelton). The steps are divided into BLOCKS of consecutive
 * steps, and each block has a difference d = sum own - sum m:
 *     error = sqrt(BLOCKS) standard deviation(d) / sum m.
 * A single slow step of any length gives excess = error, so it makes no outlier. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { BLOCKS = 10 };
/* Work of a rank in all steps, and its pace in the timed steps. */
typedef struct {
    double flops, bytes;  /* of computing operations */
    double excess, error; /* NaN if unknown */
    int peers;
} rank_pace;

/* Fills excess, error and peers of each rank. own: [steps, ranks] seconds. NaN if a rank has no peers, or there are
 * fewer than BLOCKS steps. */
void find_paces(const double *own, int64_t steps, int ranks, rank_pace *pace);
/* Returns whether the excess is above the limit by more than chance. */
bool pace_is_outlier(const rank_pace *p);
