/* Faults that a deck plants on one operation of a machine. */
#pragma once
#include "machine/queue/machine.h"

/* A planted fault (deck key "fault"). world_rank submits it; a transfer is struck on every rank of its group (a link's
 * both ends), found as the transfer of that group and sequence within the step, which the caller learns from
 * prove_fault_found of a machine on paper. */
typedef struct {
    fault_kind kind;
    op_kind operation;
    int64_t nth;
    int world_rank;
    bool transfer_known;
    char transfer_axis[16];
    int transfer_channel, transfer_first; /* the group: machine/op/fabric.h */
    uint64_t transfer_sequence;           /* within the step, from 0 */
} fault;

enum { FAULT_GROUPS = 32 };
/* A fault on its machine, and what came of it. */
typedef struct {
    fault fault;
    bool found;       /* the machine met the transfer and completed `fault` with its name */
    int64_t executed; /* operations of that kind in this step */
    struct group *group[FAULT_GROUPS];
    int groups;
    int64_t strikes;
    op struck; /* the last */
} planting;

/* A step counts the transfers of each group: from the first that the machine sees of it, or from fault_step. */
void fault_step(planting *p);
/* Returns whether the operation, the next that runs, shall leave out its waits. */
bool fault_unwaits(const planting *p, const machine *m, const op *o);
/* Runs the operation, struck if the fault is meant for it. unwaited: a wait was left out before it. */
void fault_run(planting *p, queue *q, op *o, bool unwaited);
