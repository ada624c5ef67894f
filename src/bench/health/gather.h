/* Where the ranks' seconds went in each step, brought together on rank 0, and who was slow. */
#pragma once
#include "bench/facts/result.h"

/* What this rank brings. */
typedef struct {
    double *seconds; /* rows of a number a step (gather.c); owned */
    int64_t steps;
    struct rank_facts *facts; /* owned */
} rank_times;

/* m: NULL if this rank takes no part. */
rank_times times_of_rank(const case_result *r, machine *m);
/* Collective over the world; frees what was brought. Fills rank_table and pace on rank 0, outlier on all ranks. When a
 * rank comes to a collective is told without clocks that agree: it ends for all at one time, so who came last was
 * shortest in it. Of an axis in a step
 *     late = largest of the group's seconds in collectives - own,
 * summed over axes: by how much longer than this rank another of its groups was in them. */
void times_gather(rank_times *brought, case_result *r);
/* On rank 0: each rank's pace, from rank_table and its flops and bytes. Its own seconds of a step are those of
 * computing without the run delay: a crowded processor is not the rank's. */
void judge_paces(case_result *r);
/* Is that time the rank's own? Not on a host whose ranks have several threads each and share cores; then no rank is
 * judged. */
bool paces_are_known(const case_result *r);
