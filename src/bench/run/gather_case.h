/* What the ranks of a case observed, brought together on rank 0.
 *
 * What has a size of its own gathers itself: times (order steps x ranks) and samples, since their sampler ends with
 * it. So do the totals of sums and the digests of weights and transfers, which are compared over groups, and
 * the check, whose lines are printed before the timed steps. All else is a row of the one table of gather_findings. */
#pragma once
#include "bench/facts/result.h"

/* Brings the times of each rank and step (NULL: this rank takes no part) and the samples of a case to rank 0: memory of
 * order steps x ranks. Closes the sampler (NULL: none). window: when the timed steps began, by this rank's clock.
 * Collective over the world. */
void gather_ranks(case_result *r, own_times *brought, sampler *own, double window);
/* Gathers this rank's facts by the table of rows: what is summed, whose largest counts, whose text is kept, which lists
 * have an entry of each rank. Three reductions and a gather for each list. Collective over the world; lists are NULL on
 * other ranks than 0 afterwards, all else is the same on all ranks. */
void gather_findings(facts *f);
