/* Sums of gradients over ranks in the timed steps, and equal weights after them, judged on the host: what every rank
 * added up before and after each sum (train/trainer.h) is compared by MPI, outside the transfers under test. */
#pragma once
#include "bench/check/findings.h"
#include "train/trainer.h"

/* Totals of the steps: in host memory, of so many steps apart; of a step beyond them they are added to those of the
 * step that far before it. Totals of different steps have independent signs, so that the same threshold holds for their
 * sum. */
enum { CONSERVED_STEPS = 256 };
typedef struct conserved_steps {
    double *total; /* [slots, length] */
    double *step;  /* [length] */
    int64_t slots, length, steps;
} conserved_steps;

/* Memory for a trainer's steps; NULL: it sums nothing. Read: a step that is complete, one step later, in order. */
conserved_steps *conserved_open(const trainer *t, int64_t steps);
void conserved_read(conserved_steps *k, const trainer *t);

/* Judges all steps read, and compares the weights as the last step left them; frees k. Returns what this rank found. t:
 * NULL on a rank that takes no part. norm: the largest gradient norm of the steps. Collective over the world. */
conservation conserved_judge(conserved_steps *k, trainer *t, double norm);
