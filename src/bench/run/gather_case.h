/* What the ranks of a case found in its timed steps, brought together when these have ended. */
#pragma once
#include "bench/facts/result.h"
#include "train/measure.h"

/* Collective over the world. Rank 0 gets the times of each rank and step, devices, clocks and samples: memory of order
 * steps x ranks. Dismantles the trainer (NULL: this rank takes no part) as soon as its numbers are taken. */
void gather_case(case_result *r, trainer *t, machine_kind kind);
