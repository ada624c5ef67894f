/* Replicas: checks that copies of weights on several ranks are equal. */
#pragma once
#include "bench/check/findings.h"
#include "train/trainer.h"

/* Computes digests of this rank's weights after the last step. In each group of ranks with the same weights, compares
 * the digest with that of the group's first rank. Adds this rank's findings to `to`. Collective over the ranks that
 * take part. */
void replicas_compare(conservation *to, trainer *t);
