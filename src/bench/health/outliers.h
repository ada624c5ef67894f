/* Which ranks compute more slowly than those that were given the same work: a pure function of tables.
 *
 * Peers of a rank are the ranks whose computing operations have the same flops and bytes, within WORK_ALIKE. So what
 * differs by design is not compared: first, middle and last stages of a pipeline. A rank without peers is not judged.
 * In each step a rank's own seconds stand beside the median of its peers', m. With sums over the steps,
 *     excess = sum own / sum m - 1
 * and its standard error by the method of batch means (Law and Kelton): the steps are cut into BLOCKS of consecutive
 * ones, and d is what a block's sums differ by:
 *     error = sqrt(BLOCKS) standard deviation(d) / sum m.
 * One step that hung, however long, has excess = error, and names nobody. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { BLOCKS = 10 };
/* What a rank was given in all steps together, and how it did in the timed ones. */
typedef struct {
    double flops, bytes;  /* of computing operations */
    double excess, error; /* NaN: not known */
    int peers;
} rank_pace;

/* own: [steps, ranks] seconds. Fills excess, error and peers of each rank; NaN: it has no peers, or there are
 * fewer than BLOCKS steps. */
void find_paces(const double *own, int64_t steps, int ranks, rank_pace *pace);
/* Is its excess beyond the limit, and not by chance? */
bool pace_is_outlier(const rank_pace *p);
