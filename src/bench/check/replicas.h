/* Weights that several ranks hold are equal on all of them. */
#pragma once
#include "bench/check/findings.h"
#include "train/trainer.h"

/* Digests the weights as the last step left them, compares each with that of the first rank of each group that holds
 * the same, and adds what it finds to `to`. t: NULL on a rank that takes no part. Collective over the world. */
void replicas_compare(conservation *to, trainer *t);
