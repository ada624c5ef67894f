/* queue/: machines and their queues. The operations of a queue run in order and can wait for marks of other queues.
 * A machine checks and counts them and gives them to a backend. None of these calls is collective. */
#pragma once
#include "base/arena.h"
#include "machine/queue/history.h"
#include "machine/queue/kind.h"
#include "machine/queue/preparation.h"

typedef struct machine machine;
typedef struct queue queue;
/* A submitted operation. queue NULL: nothing to wait for. */
typedef struct {
    queue *queue;
    uint64_t serial;
} mark;

machine *machine_open(const machine_options *options);
void machine_close(machine *m); /* call machine_sync first */

queue *machine_queue(machine *m, const char *name); /* owned by the machine; at most HAZARD_QUEUES */
int machine_queues(const machine *m);
queue *machine_queue_at(machine *m, int i); /* in the order of their creation */
void machine_sync(machine *m);

/* Submits a copy of the operation and does not wait for it. If the queue is full, waits for its first operation. */
mark op_submit(queue *q, const op *o);
/* Makes the queue's next operation wait for the mark. The caller does not wait. */
void queue_wait(queue *q, mark m);
/* Makes the queue's next operation wait for all that the other queue has submitted or waits for. */
void queue_follow(queue *q, const queue *other);
/* Returns the mark of the last operation submitted to the queue. */
mark queue_mark(const queue *q);
machine *queue_machine(const queue *q);
/* Gives the queue the lowest priority. Call it before the first operation. */
void queue_yield(queue *q);
/* Sets the scratch memory of the queue's operations, owned by the caller. A machine on paper does not use it. */
void queue_set_scratch(queue *q, void *memory, size_t bytes);

/* Waits until the operation is complete. The trainer never waits inside a step. */
void mark_sync(mark m);
/* Returns when it completed (clock_seconds; on paper 0). Call mark_sync first. Only the last operations are kept. */
double mark_time(mark m);

/* Sets the origin of the operations that follow and returns the previous one. */
origin machine_origin(machine *m, origin where);
origin machine_origin_now(const machine *m);
/* Begins a step: sets the step of later operations and restarts the counts of waits and of the fault's operations. */
void machine_step(machine *m, int64_t step);
/* Waits for all operations, then starts or stops the profiler that is attached to the process, if any. */
void machine_profile(machine *m, bool on);

/* Returns whether the machine runs nothing: values to upload need not be computed. */
bool machine_on_paper(const machine *m);
/* Returns the notes of a machine on paper and starts new ones. The caller frees them (preparation_free). */
preparation machine_prepared(machine *m);
/* Tries kernels for the noted operations in unused memory, and chooses. Call it before the first operation. */
void machine_tune(machine *m, const preparation *p, void *memory, size_t bytes);

/* Copies from the caller to the machine. Synchronizes: use it only in set-up and after a step. */
void machine_upload(machine *m, tensor to, const void *from);
/* Copies a tensor to the caller, which has waited for its last writer. Waits for nothing else. */
void machine_read(machine *m, void *to, tensor from);
/* Returns a tensor that the caller can read: the same one, or a copy in host memory. The caller has waited for its last
 * writer. machine_view_store copies changes back, machine_view_end frees a copy. */
tensor machine_view(machine *m, tensor t);
void machine_view_store(machine *m, tensor t, const tensor *view);
void machine_view_end(machine *m, tensor *view);

/* Returns the number of waits since machine_step, without redundant ones, with those that a fault left out. */
int64_t machine_waits(const machine *m);
const hazard_report *machine_hazards(const machine *m);           /* count and first sentences */
void machine_add_hazards(machine *m, const hazard_report *found); /* of a replaced machine */
tally *machine_tally(machine *m);
/* Returns the last span_capacity operations that ran, in no particular order; valid until more run. */
const span *machine_spans(const machine *m, int64_t *count);
/* Keeps the seconds of each of the first `steps` steps from now on. steps must not decrease. */
void machine_keep_steps(machine *m, int64_t steps);
/* Returns the seconds of each step [steps]; zeros for steps that did not run. */
const tally_step *machine_steps(const machine *m);
