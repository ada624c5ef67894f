/* Faults that a deck plants in one operation of a machine. */
#pragma once
#include "machine/queue/machine.h"

/* A planted fault (deck key "fault"): operation number nth of a step on world_rank. A transfer is struck on all ranks
 * of its group. They find it by group and sequence in the step, which prove_planted of a machine on paper returns. */
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

/* A fault on its machine, and its effects. */
typedef struct {
    fault fault;          /* group and sequence of a transfer are added when it is submitted */
    int64_t dropped_wait; /* number of the wait to drop in a step, over all queues; -1: none */
    uint64_t steps;       /* number of steps so far, with this one */
    int64_t executed;     /* operations of the fault's kind in this step */
    bool left_out;        /* the present operation left out a wait */
    int64_t strikes;
    op struck, unwaited; /* the last of each */
} planting;

/* Begins a step: restarts the counts of operations and of the transfers of each group. */
void fault_step(planting *p);
/* Returns whether the operation, which is submitted next, must leave out wait number `wait` of the step. */
bool fault_leaves_out(planting *p, const machine *m, const op *o, int64_t wait);
/* Submits the operation, and strikes it if the fault is meant for it. */
void fault_run(planting *p, queue *q, op *o);
