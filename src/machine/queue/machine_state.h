/* What a machine and its queues hold, for submit.c and machine/prove/. */
#pragma once
#include "machine/queue/backend.h"
#include "machine/queue/machine.h"

/* The past is known when the queue is told to wait: until its next operation the checker may forget it. */
typedef struct {
    mark mark;
    vector_clock past;
} awaited;

struct queue {
    machine *machine;
    int index;
    const char *name;
    bool yields;
    uint64_t serial; /* of the last op submitted; the first is 1 */
    void *scratch;
    size_t scratch_bytes;
    awaited pending[HAZARD_QUEUES];
    int pendings; /* one a queue at most: its latest */
    dependency wait[HAZARD_QUEUES];
    int waits; /* those of them that order something: the next op's */
};

/* Proves operations beside the dispatcher. `state` is the machine's proving. */
typedef struct {
    /* Returns whether the operation leaves out a wait, which is so many waits after the step's first. */
    bool (*leaves_out)(void *state, const op *o, int64_t wait);
    /* Runs the operation in place of submit_run, with what comes before and after it. */
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
    const prover *prover; /* NULL: operations run as they are submitted */
    void *proving;
};

/* Counts, checks and hands over one operation, which waits for what queue.wait lists. */
mark submit_run(queue *q, const op *o);
/* The group's transfers are numbered on every rank alike, struck ones included. */
void submit_number(op *o);
