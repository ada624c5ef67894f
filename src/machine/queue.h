/* Queues of a machine: operations are submitted to them in order, and wait for marks of other queues. Nothing here is
 * collective. */
#pragma once
#include "machine/op.h"

typedef struct machine machine;
typedef struct queue queue;
/* An operation that was submitted. queue NULL: already done. */
typedef struct {
    queue *queue;
    uint64_t serial;
} mark;

/* Copies the op and does not wait for it; only where the queue is full of operations that have not run, for the first
 * of them, which the host runs then. */
mark op_submit(queue *q, const op *o);
/* The queue's next op waits for the mark; the caller does not. */
void queue_wait(queue *q, mark m);
/* The queue's next op comes after all that the other queue has submitted, and after what that one's next op will wait
 * for. */
void queue_follow(queue *q, const queue *other);
/* The last op submitted to the queue. */
mark queue_mark(const queue *q);
machine *queue_machine(const queue *q);
/* Memory for the operations of this queue; on a machine on paper it is not used. */
void queue_set_scratch(queue *q, void *memory, size_t bytes);

/* The caller waits. An error inside a step. */
void mark_sync(mark m);
/* When it completed, in clock_seconds; valid after mark_sync, for the last mark_history ops of its queue. On paper 0.
 */
double mark_time(mark m);
double mark_seconds(mark from, mark to);
