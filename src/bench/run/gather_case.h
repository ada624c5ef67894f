/* Gathering of the facts of a case on rank 0: times and samples in gather_ranks, other facts by the table of
 * gather_findings. Other modules sum three facts over ranks: conserved sums, digests, and the results of the check. */
#pragma once
#include "bench/facts/result.h"

/* Gathers the times of each rank and step, and the samples, on rank 0; their memory is proportional to steps x ranks.
 * times: NULL if this rank takes no part. Frees the sampler `own`, which may be NULL. window: begin of the timed steps
 * by this rank's clock. Collective over the world. */
void gather_ranks(case_result *r, own_times *times, sampler *own, double window);
/* Combines the other facts of all ranks with three reductions, and a gather for each list. Then each list is on rank 0
 * and NULL on the others, and all other facts are equal on all ranks. Collective over the world. */
void gather_findings(facts *f);
