/* health/: what tells a slow or disturbed machine.
 *
 * Where the ranks' seconds of each step went, brought together on rank 0. */
#pragma once
#include "machine/queue/machine.h"

/* EXPOSED: transfers by axis. */
typedef enum {
    RANK_COMPUTING,
    RANK_RUN_DELAY,
    RANK_LATE,
    RANK_EXPOSED_TENSOR,
    RANK_EXPOSED_CONTEXT,
    RANK_EXPOSED_EXPERT,
    RANK_EXPOSED_SHARD,
    RANK_EXPOSED_PIPELINE,
    RANK_EXPOSED_GRADIENT,
    RANK_EXPOSED_ALL,
    RANK_TABLES
} rank_table;

enum { GATHERED_AXES = 8 };
/* Sums over the timed steps, of a rank: the tally's, by phase and by gathered axis. */
typedef struct {
    double idle_seconds, dispatch_seconds, phase_seconds[PHASES];
    int64_t messages[GATHERED_AXES];
    double bytes[GATHERED_AXES], seconds[GATHERED_AXES];
} rank_sums;

/* flops, bytes: of computing operations, all steps. first: of each axis that transfers, the world rank of the first
 * member of the rank's group; -1: no collectives. */
typedef struct {
    double flops, bytes;
    char host[64];
    int first[GATHERED_AXES];
    rank_sums sums;
} rank_work;

/* Tables [steps, ranks] in seconds, and work [ranks]; owned. On ranks other than 0 they are NULL. */
typedef struct {
    double *step, *table[RANK_TABLES];
    rank_work *work;
} rank_times;

/* What this rank brings. row: a number a step in each (rank_times.c); owned. */
typedef struct {
    double *row;
    int64_t steps;
    rank_work work;
} own_times;

const char *gathered_axis_name(int axis);
/* Takes this rank's times from its machine; NULL: it takes no part. timed: counts and seconds of the timed steps.
 * step: [steps] seconds by its clock. */
own_times times_of_rank(machine *m, const tally *timed, const double *step, int64_t steps);
/* Frees what was brought. Collective over the world. A late rank is found without clocks that agree: a collective ends
 * for all ranks at one time, so the last to come was shortest in it. Of an axis in a step
 *     late = largest of the group's seconds in collectives - own,
 * summed over axes. */
rank_times times_gather(own_times *brought, int64_t completed, int ranks);
void times_free(rank_times *t);
