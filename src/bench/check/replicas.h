/* Replicas: checks that ranks that hold the same weights have equal values. */
#pragma once
#include "bench/check/findings.h"
#include "train/trainer.h"

/* Computes digests of the weights after the last step and compares each with that of the first rank of every group that
 * holds the same weights. Adds the findings of this rank to `to`. Collective over the ranks that take part. */
void replicas_compare(conservation *to, trainer *t);
