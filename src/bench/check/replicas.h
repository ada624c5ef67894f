/* Weights that several ranks hold are equal on all of them. */
#pragma once
#include "bench/facts/result.h"
#include "train/trainer.h"

/* Digests the weights as the last step left them, compares each with that of the first rank of each group that holds
 * the same, into r->conserved. t: NULL on a rank that takes no part. Collective over the world. */
void replicas_compare(case_result *r, trainer *t);
