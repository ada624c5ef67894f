/* The host executor. It runs operations when the caller synchronizes, one at a time, in submitted or hostile order.
 * Transfers are started and polled, so an order deadlocks only if it would also deadlock on a GPU. */
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "machine/host/host.h"
#include "machine/host/run_delay.h"
#include "machine/op/activity.h"
#include "machine/ranges/ranges.h"
#include <string.h>

enum { QUEUE_OPS = 2048 };

typedef struct {
    op op;
    void *scratch;
    size_t scratch_bytes;
    uint64_t order; /* of submission, over all queues */
    dependency wait[HAZARD_QUEUES];
    int waits, waits_completed;
} entry;

typedef struct {
    entry *ring;         /* [QUEUE_OPS] */
    uint64_t head, tail; /* the head can run next */
    bool running;        /* the head is a transfer in flight */
    double began;
    uint64_t range; /* NVTX */
    host_transfer *transfer;
    activity activity; /* of the transfer in flight */
    access_proof proof;
} host_queue;

typedef struct {
    machine_options options;
    history *history;
    host_queue queue[HAZARD_QUEUES];
    run_delay delay; /* read before and after each computing operation */
    uint64_t submitted, decisions;
} executor;

void *executor_open(const machine_options *options, history *h)
{
    executor *e = allocate(1, sizeof *e, "the executor");
    e->options = *options;
    e->history = h;
    e->delay = run_delay_open(clock_seconds());
    return e;
}

void executor_close(void *state)
{
    executor *e = state;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        host_queue *q = &e->queue[i];
        if (q->transfer) host_transfer_close(q->transfer);
        free(q->ring);
    }
    run_delay_close(&e->delay);
    free(e);
}

static void open_queue(host_queue *q)
{
    q->ring = allocate(QUEUE_OPS, sizeof *q->ring, "the operations of a queue");
    q->transfer = host_transfer_open();
}

static entry *head_of(host_queue *q) { return q->head < q->tail ? &q->ring[q->head % QUEUE_OPS] : NULL; }

static const dependency *incomplete_wait(const executor *e, entry *x)
{
    for (; x->waits_completed < x->waits; x->waits_completed++) {
        const dependency *w = &x->wait[x->waits_completed];
        if (e->history->completed[w->queue] < w->serial) return w;
    }
    return NULL;
}

static void complete_head(executor *e, host_queue *q)
{
    const op *o = &head_of(q)->op;
    if (e->options.prove_access) access_proof_after(&q->proof, o);
    span s = { o->kind, (int)(q - e->queue), o->origin, q->began, clock_seconds(), NULL, 0 };
    if (op_is_transfer(o->kind)) s.axis = o->args.fabric.group->axis, s.number = o->args.fabric.sequence + 1;
    ranges_end(q->range);
    q->head++;
    q->running = false;
    history_complete(e->history, &s);
}

static bool poll_transfers(executor *e)
{
    bool any = false;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        host_queue *q = &e->queue[i];
        if (!q->running || !host_transfer_test(q->transfer)) continue;
        complete_head(e, q);
        any = true;
    }
    return any;
}

static void start_head(executor *e, host_queue *q)
{
    const entry *x = head_of(q);
    const op *o = &x->op;
    q->began = clock_seconds();
    q->range = ranges_begin(o);
    if (e->options.prove_access) {
        size_t scratch = host_scratch_of(NULL, o);
        backend_check_scratch(o, scratch, x->scratch_bytes);
        if (scratch) memset(x->scratch, 0xFF, scratch);
        access_proof_before(&q->proof, o);
    }
    if (op_is_transfer(o->kind)) {
        q->activity = transfer_activity(o);
        q->activity.since = q->began;
        activity_enter(&q->activity);
        host_transfer_start(q->transfer, o, x->scratch);
        q->running = true;
        return;
    }
    run_delay_at(&e->delay, q->began);
    host_compute(o, x->scratch);
    history_run_delay(e->history, o->origin.step, run_delay_at(&e->delay, clock_seconds()));
    complete_head(e, q);
}

/* Returns a queue whose head can start, or NULL: that of the first submitted head, or any one in hostile order. */
static host_queue *choose_queue(executor *e)
{
    host_queue *ready[HAZARD_QUEUES], *first = NULL;
    int count = 0;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        host_queue *q = &e->queue[i];
        entry *x = head_of(q);
        if (!x || q->running || incomplete_wait(e, x)) continue;
        ready[count++] = q;
        if (!first || x->order < head_of(first)->order) first = q;
    }
    if (!e->options.hostile || count == 0) return first;
    philox_block draw = { { (uint32_t)e->decisions++, (uint32_t)e->options.world_rank, 0, 2 } };
    return ready[mulhi(philox4x32(draw, e->options.order_seed, 0).word[0], (uint32_t)count)];
}

/* Follows the chain of waits from the first submitted head that waits to a transfer in flight; NULL: there is none. */
static host_queue *blocking_transfer(executor *e)
{
    host_queue *q = NULL;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        entry *x = head_of(&e->queue[i]);
        if (x && incomplete_wait(e, x) && (!q || x->order < head_of(q)->order)) q = &e->queue[i];
    }
    for (int hops = 0; q && !q->running && hops < HAZARD_QUEUES; hops++) {
        entry *x = head_of(q);
        const dependency *w = x ? incomplete_wait(e, x) : NULL;
        q = w ? &e->queue[w->queue] : NULL;
    }
    return q && q->running ? q : NULL;
}

static host_queue *oldest_transfer(executor *e)
{
    host_queue *oldest = NULL;
    for (int i = 0; i < HAZARD_QUEUES; i++)
        if (e->queue[i].running && (!oldest || e->queue[i].began < oldest->began)) oldest = &e->queue[i];
    return oldest;
}

static void fail_deadlocked(executor *e)
{
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        entry *x = head_of(&e->queue[i]);
        if (x && incomplete_wait(e, x)) backend_fail_deadlock(&x->op, incomplete_wait(e, x));
    }
    FAIL("a queue waits for an event that was never submitted");
}

static void wait_for_transfers(executor *e)
{
    double begin = clock_seconds();
    host_queue *q = blocking_transfer(e);
    if (!q) q = oldest_transfer(e);
    if (!q) fail_deadlocked(e);
    const op *o = &head_of(q)->op; /* the entry stays valid after completion */
    activity_wait(&q->activity);
    while (!poll_transfers(e)) activity_yield();
    activity_wait_end();
    history_exposed(e->history, o->args.fabric.group->axis, o->origin.step, clock_seconds() - begin);
}

static void advance(executor *e)
{
    double begin = clock_seconds();
    host_queue *q = choose_queue(e);
    if (q) {
        start_head(e, q);
        poll_transfers(e);
    } else {
        wait_for_transfers(e);
    }
    e->history->tally->run_seconds += clock_seconds() - begin;
}

void executor_submit(void *state, const submission *s)
{
    executor *e = state;
    host_queue *q = &e->queue[s->queue];
    if (!q->ring) open_queue(q);
    while (q->tail - q->head == QUEUE_OPS) advance(e);
    entry *x = &q->ring[q->tail++ % QUEUE_OPS];
    x->op = *s->op;
    x->scratch = s->scratch;
    x->scratch_bytes = s->scratch_bytes;
    x->order = e->submitted++;
    x->waits = s->waits;
    x->waits_completed = 0;
    memcpy(x->wait, s->wait, (size_t)s->waits * sizeof *x->wait);
}

void executor_sync(void *state, int queue, uint64_t serial)
{
    executor *e = state;
    while (e->history->completed[queue] < serial) advance(e);
}
