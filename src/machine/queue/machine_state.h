/* What a machine and its queues hold: machine_state.c opens and reads them, submit.c passes operations on, fault.c
 * plants faults. */
#pragma once
#include "machine/prove/shadow.h"
#include "machine/queue/backend.h"
#include "machine/queue/machine.h"

enum { MACHINE_GROUPS = 32 };

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

typedef struct delivery delivery;

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
    int64_t executed[OP_KINDS]; /* of this step */
    struct group *group[MACHINE_GROUPS];
    int groups;
    fault fault;
    int64_t faults;
    bool fault_found;
    op struck; /* by the fault, last */
    int64_t waits, dropped_wait;
    op unwaited;
    shadow *shadow;
    delivery *delivery; /* NULL: transfers are not proven */
};

/* Counts, checks and hands over one operation, which waits for what queue.wait lists. */
mark submit_run(queue *q, const op *o);
/* The group's transfers are numbered on every rank alike, struck ones included. */
void submit_number(op *o);

/* A step counts the transfers of each group: from the first that this machine sees of it, or from fault_step. */
void fault_know_group(machine *m, struct group *g);
void fault_step(machine *m);
/* The fault that the deck plants on this operation, if it does. Counts it. */
fault_kind fault_now(machine *m, const op *o);
/* Runs the operation, struck so. Was anything changed by that? A wait is left out by the caller. */
bool fault_submit(queue *q, op *o, fault_kind kind);

/* What proves transfers (delivery.h). sum_bytes: machine memory for the copies of one step's sums over ranks, the
 * delivery_sum_bytes of its operations, which are 0 if one does not add. */
delivery *delivery_open(machine_kind kind, delivery_mode mode, size_t sum_bytes);
void delivery_close(delivery *d);
size_t delivery_sum_bytes(const op *o);
/* Submits what comes before, and after, a transfer that is submitted to the queue. */
void delivery_before(delivery *d, queue *q, const op *o);
void delivery_after(delivery *d, queue *q, const op *o);
