/* Gathering of the facts of a case on rank 0.
 *
 * gather_ranks gathers times and samples. Three other facts are summed over ranks where they are made: totals of
 * conserved sums, digests, and the results of the check, which are printed before the timed steps. All other facts are
 * rows of the table in gather_findings. */
#pragma once
#include "bench/facts/result.h"

/* Gathers the times of each rank and step, and the samples, on rank 0; this takes memory in proportion to steps x
 * ranks. brought: NULL if this rank takes no part. Frees the sampler (NULL if there is none). window: begin of the
 * timed steps by this rank's clock. Collective over the world. */
void gather_ranks(case_result *r, own_times *brought, sampler *own, double window);
/* Gathers this rank's facts by a table of rows, with three reductions, and a gather for each list. Afterwards lists are
 * NULL on other ranks than 0, and all other facts are the same on all ranks. Collective over the world. */
void gather_findings(facts *f);
