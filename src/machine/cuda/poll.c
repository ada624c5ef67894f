/* Finds completed operations in order. Computes their begin and end times, and which operation the host waits for. */
#include "base/clock.h"
#include "base/fail.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/queue.h"
#include "machine/cuda/transfers/communicators.h"
#include "machine/op/activity.h"
#include <math.h>

static uint64_t completed(const cuda_executor *e, int queue) { return e->history->completed[queue]; }
/* Returns the end time of the queue's last completed operation. */
static double last_end(const cuda_executor *e, int queue)
{
    return history_end(e->history, queue, completed(e, queue));
}

static entry *head_of(const cuda_executor *e, int queue)
{
    const cuda_queue *q = &e->queue[queue];
    uint64_t next = completed(e, queue) + 1;
    return next <= q->submitted ? queue_entry(q, next) : NULL;
}

static bool is_pending(const cuda_executor *e, const cuda_wait *w) { return completed(e, w->on.queue) < w->on.serial; }

static bool complete_on_device(cuda_queue *q, const entry *x)
{
    double now = clock_seconds();
    cudaError_t code = cudaEventQuery(x->event);
    if (code == cudaErrorNotReady) {
        q->incomplete_at = now;
        cudaGetLastError(); /* clears the error, or the next launch would seem to have failed */
        return false;
    }
    CUDA_CHECK(code);
    return true;
}

/* Returns the queue's first operation if it is complete and all operations it waited for have been processed. */
static entry *next_done(cuda_executor *e, int queue)
{
    entry *x = head_of(e, queue);
    if (!x || !complete_on_device(&e->queue[queue], x)) return NULL;
    for (int i = 0; i < x->waits; i++)
        if (is_pending(e, &x->wait[i])) return NULL;
    return x;
}

/* Returns 0 if the history no longer has the awaited operation. */
static double end_time(const cuda_executor *e, const cuda_wait *w)
{
    const dependency *on = &w->on;
    return history_keeps(e->history, on->queue, on->serial) ? history_end(e->history, on->queue, on->serial) : 0.0;
}

/* Returns true for transfers, other operations of their queues, and weight gradients. */
static bool overlaps(const cuda_executor *e, int queue, const entry *x) { return x->axis || e->queue[queue].overlaps; }

/* Returns when the operation could begin. Time that the compute queue waited only for transfers is exposed. */
static double begin_time(const cuda_executor *e, int queue, const entry *x)
{
    double ready = fmax(last_end(e, queue), x->submitted);
    const cuda_wait *last = NULL;
    for (int i = 0; i < x->waits; i++)
        if (!x->wait[i].axis) ready = fmax(ready, end_time(e, &x->wait[i]));
    double begin = ready;
    for (int i = 0; i < x->waits; i++) {
        if (!x->wait[i].axis || end_time(e, &x->wait[i]) <= begin) continue;
        last = &x->wait[i];
        begin = end_time(e, last);
    }
    if (last && !overlaps(e, queue, x)) history_exposed(e->history, last->axis, x->origin.step, begin - ready);
    return begin;
}

static void complete(cuda_executor *e, int queue, const entry *x)
{
    double after = fmax(x->submitted, e->queue[queue].incomplete_at);
    double seen = device_clock_time(e->clock, x->event, after, clock_seconds());
    double end = fmax(last_end(e, queue), seen);
    double begin = fmin(begin_time(e, queue, x), end);
    bool transfers = op_is_transfer(x->kind);
    history_complete(e->history, &(span){ x->kind, queue, x->origin, begin, end, transfers ? x->axis : NULL,
                                          (uint64_t)x->watched.number });
    if (overlaps(e, queue, x) && !transfers && tally_counts(e->history->tally, x->origin.step))
        e->history->tally->concurrent_seconds += end - begin;
}

/* Polls every queue once. Returns whether any operation was completed. */
static bool poll_all(cuda_executor *e)
{
    bool any = false;
    for (int i = 0; i < HAZARD_QUEUES; i++)
        for (entry *x = next_done(e, i); x; x = next_done(e, i), any = true) complete(e, i, x);
    return any;
}

/* Makes the latest completed event the clock's base, after a poll that found nothing: pending operations end later.
 * Skips full queues, because they already use that event again. */
static void advance_clock(cuda_executor *e)
{
    int latest = -1;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        bool kept = completed(e, i) > 0 && e->queue[i].submitted - completed(e, i) < QUEUE_OPS;
        if (kept && (latest < 0 || last_end(e, i) > last_end(e, latest))) latest = i;
    }
    if (latest < 0) return;
    entry *x = queue_entry(&e->queue[latest], completed(e, latest));
    device_clock_advance(e->clock, &x->event, last_end(e, latest));
}

/* Follows the chain of waits that starts at the queue's head. */
static const entry *blocking_operation(const cuda_executor *e, int queue)
{
    const entry *x = head_of(e, queue);
    for (int hops = 0; hops < HAZARD_QUEUES; hops++) {
        const cuda_wait *pending = NULL;
        for (int i = 0; i < x->waits && !pending; i++)
            if (is_pending(e, &x->wait[i])) pending = &x->wait[i];
        if (!pending) break;
        x = head_of(e, pending->on.queue);
    }
    return x;
}

/* Publishes the operation that the host waits for, whenever it changes. */
static void publish(cuda_executor *e, int queue, double begin, const entry **published)
{
    const entry *x = blocking_operation(e, queue);
    if (x == *published) return;
    if (*published) activity_wait_end();
    activity w = x->watched;
    w.since = begin;
    activity_wait(&w);
    *published = x;
}

void poll_until(cuda_executor *e, int queue, uint64_t serial)
{
    double begin = clock_seconds();
    const entry *published = NULL;
    if (serial > e->queue[queue].submitted) FAIL("a queue waits for an event that was never submitted");
    while (completed(e, queue) < serial) {
        if (poll_all(e)) continue;
        advance_clock(e);
        publish(e, queue, begin, &published);
        communicators_check();
        activity_yield();
    }
    if (published) activity_wait_end();
    e->history->tally->run_seconds += clock_seconds() - begin;
}
