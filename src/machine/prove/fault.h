/* Faults that a deck plants on one operation of a machine. */
#pragma once
#include "machine/queue/machine.h"

/* A planted fault (deck key "fault"). world_rank submits it; a transfer is struck on every rank of its group. These
 * find it by group and sequence within the step, which prove_planted of a machine on paper tells. */
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

/* A fault on its machine, and what came of it. */
typedef struct {
    fault fault;          /* completed with the transfer's name when the machine met it */
    int64_t dropped_wait; /* of the step, over all queues; -1: none */
    uint64_t steps;       /* so far, this one included */
    int64_t executed;     /* operations of the fault's kind in this step */
    bool left_out;        /* a wait of the operation at hand */
    int64_t strikes;
    op struck, unwaited; /* the last ones */
} planting;

/* A step begins: operations and each group's transfers are counted from here. */
void fault_step(planting *p);
/* Returns whether the operation, the next that runs, shall leave out this wait. */
bool fault_leaves_out(planting *p, const machine *m, const op *o, int64_t wait);
/* Runs the operation, struck if the fault is meant for it. */
void fault_run(planting *p, queue *q, op *o);
