/* queue/: machines and their queues. Operations that are submitted to a queue run in order and wait for marks of other
 * queues. They are checked, counted and handed to a backend. None of these calls is collective. */
#pragma once
#include "base/arena.h"
#include "machine/queue/history.h"
#include "machine/queue/kind.h"
#include "machine/queue/preparation.h"

typedef struct machine machine;
typedef struct queue queue;
/* An operation that was submitted. queue NULL: already done. */
typedef struct {
    queue *queue;
    uint64_t serial;
} mark;

machine *machine_open(const machine_options *options);
void machine_close(machine *m); /* ends queues; sync first */

queue *machine_queue(machine *m, const char *name); /* owned by the machine; at most HAZARD_QUEUES */
int machine_queues(const machine *m);
queue *machine_queue_at(machine *m, int i); /* in the order they were made */
void machine_sync(machine *m);

/* Copies the op and does not wait for it. If the queue is full, its first operation is waited for. */
mark op_submit(queue *q, const op *o);
/* The queue's next op waits for the mark; the caller does not. */
void queue_wait(queue *q, mark m);
/* The queue's next op comes after all that the other queue has submitted and what its next op will wait for. */
void queue_follow(queue *q, const queue *other);
/* The last op submitted to the queue. */
mark queue_mark(const queue *q);
machine *queue_machine(const queue *q);
/* Before its first op: other queues' operations go first, where the machine can choose. */
void queue_yield(queue *q);
/* Memory for the operations of this queue; on a machine on paper it is not used. */
void queue_set_scratch(queue *q, void *memory, size_t bytes);

/* The caller waits. An error inside a step. */
void mark_sync(mark m);
/* When it completed, in clock_seconds, on paper 0; valid after mark_sync, for its queue's last mark_history ops. */
double mark_time(mark m);

/* Sets who asks for the operations that follow, and returns who asked for those before. */
origin machine_origin(machine *m, origin where);
origin machine_origin_now(const machine *m);
/* A step begins: executions are counted from here. */
void machine_step(machine *m, int64_t step);
/* Waits for all that was submitted, then starts or stops the profiler of the process, if one is attached. */
void machine_profile(machine *m, bool on);

/* What a machine on paper noted of the operations so far: the caller's, who frees it; it notes anew. */
preparation machine_prepared(machine *m);
/* Before the machine's first operation: tries out, in memory that nobody uses yet, what will be run. */
void machine_tune(machine *m, const preparation *p, void *memory, size_t bytes);

/* From the caller to the machine: synchronizes; set-up and after the step only. */
void machine_upload(machine *m, tensor to, const void *from);
/* A tensor whose last writer the caller has waited for: nothing else is waited for. */
void machine_read(machine *m, void *to, tensor from);
/* The tensor where the caller, who has waited for its last writer, may read it: itself, or a copy that machine_view_end
 * frees. After machine_view_store what the caller wrote there is the machine's. */
tensor machine_view(machine *m, tensor t);
void machine_view_store(machine *m, tensor t, const tensor *view);
void machine_view_end(machine *m, tensor *view);

/* Waits of the queues that ordered something since the last machine_step, those left out included. */
int64_t machine_waits(const machine *m);
const hazard_report *machine_hazards(const machine *m);           /* count and first sentences */
void machine_add_hazards(machine *m, const hazard_report *found); /* by a machine whose place this one takes */
tally *machine_tally(machine *m);
/* The last span_capacity operations that ran, in no particular order; valid until more are run. */
const span *machine_spans(const machine *m, int64_t *count);
/* Seconds of so many steps, from step 0 on, are kept apart from now on: as many as before or more. */
void machine_keep_steps(machine *m, int64_t steps);
/* [as many as are kept] Of steps that did not run: zeros. */
const tally_step *machine_steps(const machine *m);
