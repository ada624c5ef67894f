/* Weights that several ranks hold are equal on all of them. */
#pragma once
#include "bench/check/findings.h"
#include "train/trainer.h"

/* Digests the weights as the last step left them, compares each with that of the first rank of each group that holds
 * the same, and adds what this rank finds to `to`. Collective over the ranks that take part. */
void replicas_compare(conservation *to, trainer *t);
