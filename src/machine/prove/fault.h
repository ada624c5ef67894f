/* Faults that a deck plants in one operation of a machine. */
#pragma once
#include "machine/queue/machine.h"

/* A planted fault (deck key "fault"): it strikes operation number nth of a step on world_rank. It strikes a transfer on
 * all ranks of the group, which know its sequence in the step from a machine on paper (prove_planted). */
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

/* The state of a fault on its machine. */
typedef struct {
    fault fault;
    int64_t dropped_wait; /* number of the wait to drop in a step, over all queues; -1: none */
    uint64_t steps;       /* steps begun so far */
    int64_t executed;     /* operations of fault.operation in this step so far */
    bool left_out;        /* the present operation left out a wait */
    int64_t strikes;
    op struck, unwaited; /* last operation that was struck; that left out a wait */
} planting;

/* Begins a step: restarts the counts of operations and of the transfers of each group. */
void fault_step(planting *p);
/* Returns whether the operation, which is submitted next, must leave out wait number `wait` of the step. */
bool fault_leaves_out(planting *p, const machine *m, const op *o, int64_t wait);
/* Submits the operation, with the fault if it is meant for it. */
void fault_run(planting *p, queue *q, op *o);
