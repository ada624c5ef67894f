/* Conserved sums: checks every sum of gradients over ranks in the timed steps. Each rank adds up its values before and
 * after the sum (train/trainer.h). MPI compares these totals on the host, without the transfers under test. */
#pragma once
#include "bench/check/findings.h"
#include "train/trainer.h"

/* Totals of the steps, in host memory. There are at most CONSERVED_STEPS slots: the totals of step n are added to slot
 * n modulo `slots`. Steps have independent signs, so the sum of several steps has the same limit. */
enum { CONSERVED_STEPS = 256 };
typedef struct conserved_steps {
    double *total; /* [slots, length] */
    double *step;  /* [length] */
    int64_t slots, length, steps;
} conserved_steps;

/* Takes memory for the totals of `steps` steps; conserved_judge frees it. */
conserved_steps *conserved_open(const trainer *t, int64_t steps);
/* Adds the totals of the next step. The step must be complete, and among the last REPORT_SLOTS (train/trainer.h). */
void conserved_read(conserved_steps *k, const trainer *t);

/* Compares the totals of all steps, compares the replicas of the weights (replicas.h), and frees k. Returns this rank's
 * findings. t: NULL on a rank that takes no part. norm: largest gradient norm of the steps. Collective over the world.
 */
conservation conserved_judge(conserved_steps *k, trainer *t, double norm);
