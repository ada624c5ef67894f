/* The optimizer: one AdamW operation per bucket on this rank's shard, then the weights gathered where they are sharded.
 */
#pragma once
#include "train/trainer.h"

void optimizer_initialize(trainer *t);
/* Submits the update of every bucket; returns the mark of the last one. */
mark optimizer_update(trainer *t);
