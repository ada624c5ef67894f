/* health/: measurements that show a slow or disturbed machine.
 *
 * Seconds of each rank and step by cause, gathered on rank 0. */
#pragma once
#include "machine/queue/machine.h"

/* Causes. EXPOSED: only transfers on the axis ran. */
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
/* Sums of one rank over the timed steps, from its tally, by phase and by gathered axis. */
typedef struct {
    double idle_seconds, dispatch_seconds, phase_seconds[PHASES];
    int64_t messages[GATHERED_AXES];
    double bytes[GATHERED_AXES], seconds[GATHERED_AXES];
} rank_sums;

/* flops, bytes: of computing operations in all steps. first: world rank of the first member of the rank's group on
 * each axis; -1 without collectives. */
typedef struct {
    double flops, bytes;
    char host[64];
    int first[GATHERED_AXES];
    rank_sums sums;
} rank_work;

/* Tables [steps, ranks] in seconds, and work [ranks]; owned. NULL on ranks other than 0. */
typedef struct {
    double *step, *table[RANK_TABLES];
    rank_work *work;
} rank_times;

/* Times of this rank before they are gathered. row: [rows, steps], in the order of rank_times.c; owned. */
typedef struct {
    double *row;
    int64_t steps;
    rank_work work;
} own_times;

const char *gathered_axis_name(int axis);
/* Returns this rank's times, from its machine m (NULL if it takes no part). timed: counts and seconds of the timed
 * steps. step: [steps] seconds by this rank's clock. */
own_times times_of_rank(machine *m, const tally *timed, const double *step, int64_t steps);
/* Gathers the times on rank 0, and frees t. Collective over the world. Lateness needs no common clock: a collective
 * ends on all ranks at the same time, so it is shortest on the rank that arrives last. Lateness is a sum over axes of
 *     largest of the group's seconds in collectives of the step - own seconds. */
rank_times times_gather(own_times *t, int64_t completed, int ranks);
void times_free(rank_times *t);
