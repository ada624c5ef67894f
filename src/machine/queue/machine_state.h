/* The members of a machine and its queues, for submit.c and machine/prove/. */
#pragma once
#include "machine/queue/backend.h"
#include "machine/queue/machine.h"

/* A wait of the next operation. past: copied when the wait is requested, because the checker may forget it later. */
typedef struct {
    mark mark;
    vector_clock past;
} awaited;

struct queue {
    machine *machine;
    int index;
    const char *name;
    bool yields;
    uint64_t serial; /* number of the last operation submitted, from 1 */
    void *scratch;
    size_t scratch_bytes;
    awaited pending[HAZARD_QUEUES];
    int pendings; /* at most one for each other queue: the latest */
    dependency wait[HAZARD_QUEUES];
    int waits; /* waits of the next operation, without redundant ones */
};

/* Functions of machine/prove/ that op_submit calls. state: machine.proving. */
typedef struct {
    /* Returns whether the operation leaves out wait number `wait` of the step, from 0. */
    bool (*leaves_out)(void *state, const op *o, int64_t wait);
    /* Submits the operation in place of submit_run, with proofs before and after it. */
    void (*run)(void *state, queue *q, op *o);
    void (*step)(void *state, int64_t step); /* a step begins */
    void (*close)(void *state);
} prover;

struct machine {
    machine_options options;
    const backend *backend;
    void *state;
    queue queue[HAZARD_QUEUES];
    int queues;
    hazard *hazard;
    tally tally;
    history history;
    origin now;
    int64_t waits;
    const prover *prover; /* NULL: nothing is proven */
    void *proving;
};

/* Counts and checks an operation, and gives it to the backend with the waits queue.wait, which are then removed. */
mark submit_run(queue *q, const op *o);
/* Gives a transfer the next number of its group. A transfer that a fault strikes has one, too: all ranks agree. */
void submit_number(op *o);
