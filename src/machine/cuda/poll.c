/* Finds completed operations in order. Computes when each began and ended, and what the host waits for. */
#include "base/clock.h"
#include "base/fail.h"
#include "machine/cuda/device/call.h"
#include "machine/cuda/queue.h"
#include "machine/cuda/transfers/communicators.h"
#include "machine/op/activity.h"
#include <math.h>

static uint64_t completed(const cuda_executor *e, int queue) { return e->history->completed[queue]; }
/* Returns when the queue's last completed operation ended. */
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

static bool is_open(const cuda_executor *e, const cuda_wait *w) { return completed(e, w->on.queue) < w->on.serial; }

static bool complete_on_device(cuda_queue *q, const entry *x)
{
    double now = clock_seconds();
    cudaError_t code = cudaEventQuery(x->event);
    if (code == cudaErrorNotReady) {
        q->looked = now;
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
        if (is_open(e, &x->wait[i])) return NULL;
    return x;
}

/* Returns when the awaited operation ended, or 0 if that is too long ago. */
static double ended(const cuda_executor *e, const cuda_wait *w)
{
    const dependency *on = &w->on;
    return history_keeps(e->history, on->queue, on->serial) ? history_end(e->history, on->queue, on->serial) : 0.0;
}

/* Returns whether it may overlap the compute queue: transfers, operations between them, and weight gradients. */
static bool is_beside(const cuda_executor *e, int queue, const entry *x) { return x->axis || e->queue[queue].beside; }

/* Returns when the operation could begin. If the compute queue waited only for a transfer, that time is exposed. */
static double began(const cuda_executor *e, int queue, const entry *x)
{
    double ready = fmax(last_end(e, queue), x->submitted);
    const cuda_wait *late = NULL;
    for (int i = 0; i < x->waits; i++)
        if (!x->wait[i].axis) ready = fmax(ready, ended(e, &x->wait[i]));
    double begin = ready;
    for (int i = 0; i < x->waits; i++) {
        if (!x->wait[i].axis || ended(e, &x->wait[i]) <= begin) continue;
        late = &x->wait[i];
        begin = ended(e, late);
    }
    if (late && !is_beside(e, queue, x)) history_exposed(e->history, late->axis, x->origin.step, begin - ready);
    return begin;
}

static void complete(cuda_executor *e, int queue, const entry *x)
{
    double after = fmax(x->submitted, e->queue[queue].looked);
    double seen = device_clock_time(e->clock, x->event, after, clock_seconds());
    double end = fmax(last_end(e, queue), seen);
    double begin = fmin(began(e, queue, x), end);
    bool transfers = op_is_transfer(x->kind);
    history_complete(e->history, &(span){ x->kind, queue, x->origin, begin, end, transfers ? x->axis : NULL,
                                          (uint64_t)x->watched.number });
    if (is_beside(e, queue, x) && !transfers) e->history->tally->concurrent_seconds += end - begin;
}

/* Polls every queue once. Returns whether any operation was completed. */
static bool poll_all(cuda_executor *e)
{
    bool any = false;
    for (int i = 0; i < HAZARD_QUEUES; i++)
        for (entry *x = next_done(e, i); x; x = next_done(e, i), any = true) complete(e, i, x);
    return any;
}

/* Called after a poll that found nothing: all pending operations end after all completed ones, so the latest completed
 * event can become the clock's base. In a full queue that event is already in use again. */
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

/* Returns the operation at the end of the chain of waits that starts at the queue's head. */
static const entry *culprit(const cuda_executor *e, int queue)
{
    const entry *x = head_of(e, queue);
    for (int hops = 0; hops < HAZARD_QUEUES; hops++) {
        const cuda_wait *open = NULL;
        for (int i = 0; i < x->waits && !open; i++)
            if (is_open(e, &x->wait[i])) open = &x->wait[i];
        if (!open) break;
        x = head_of(e, open->on.queue);
    }
    return x;
}

/* Publishes the operation that the host waits for, whenever it changes. */
static void tell(cuda_executor *e, int queue, double begin, const entry **told)
{
    const entry *x = culprit(e, queue);
    if (x == *told) return;
    if (*told) activity_wait_end();
    activity w = x->watched;
    w.since = begin;
    activity_wait(&w);
    *told = x;
}

void poll_until(cuda_executor *e, int queue, uint64_t serial)
{
    double begin = clock_seconds();
    const entry *told = NULL;
    if (serial > e->queue[queue].submitted) FAIL("a mark is waited for that was never submitted");
    while (completed(e, queue) < serial) {
        if (poll_all(e)) continue;
        advance_clock(e);
        tell(e, queue, begin, &told);
        communicators_check();
        activity_yield();
    }
    if (told) activity_wait_end();
    e->history->tally->run_seconds += clock_seconds() - begin;
}
