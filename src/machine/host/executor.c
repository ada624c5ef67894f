/* The host executor: runs operations when somebody synchronizes, one decision at a time, in submitted order or in
 * hostile order among the queue heads that may run. Transfers are started and polled, so no order can deadlock that
 * would not on a GPU. */
#include "machine/host/executor.h"
#include "base/clock.h"
#include "base/fail.h"
#include "machine/host/host.h"
#include "machine/host/prove.h"
#include "machine/world.h"
#include <stdlib.h>

enum { LANE_OPS = 2048 };

typedef struct {
    bool waits;
    int target;
    uint64_t serial; /* of the mark waited for, or own */
    uint64_t order;  /* of submission, over all lanes */
    op op;
} entry;

typedef struct {
    entry *ring;         /* [LANE_OPS] */
    uint64_t head, tail; /* entries; head may run next */
    uint64_t completed;  /* serial */
    double *when;        /* [history] completion times, by serial */
    bool running;
    double began; /* a transfer is in flight */
    host_transfer *transfer;
    void *scratch;
    size_t scratch_bytes;
    access_proof *proof;
} lane;

struct executor {
    machine_options options;
    tally *tally;
    lane lane[HAZARD_QUEUES];
    uint64_t history; /* completion times kept per lane */
    uint64_t submitted, decisions;
    span *spans;
    int64_t span_count;
};

executor *executor_open(const machine_options *options, tally *t)
{
    executor *e = calloc(1, sizeof *e);
    if (!e) FAIL("no memory for the executor");
    e->options = *options;
    e->history = (uint64_t)(options->mark_history > MARK_HISTORY ? options->mark_history : MARK_HISTORY);
    e->tally = t;
    if (options->span_capacity) e->spans = calloc((size_t)options->span_capacity, sizeof *e->spans);
    return e;
}

void executor_close(executor *e)
{
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        lane *l = &e->lane[i];
        if (l->transfer) host_transfer_close(l->transfer);
        if (l->proof) access_proof_close(l->proof);
        free(l->ring);
        free(l->when);
    }
    free(e->spans);
    free(e);
}

static void lane_open(executor *e, lane *l)
{
    l->ring = calloc(LANE_OPS, sizeof *l->ring);
    l->when = calloc((size_t)e->history, sizeof *l->when);
    l->transfer = host_transfer_open();
    if (e->options.prove_access) l->proof = access_proof_open();
    if (!l->ring || !l->when) FAIL("no memory for a queue of %d operations", LANE_OPS);
}

static entry *lane_head(lane *l) { return l->head < l->tail ? &l->ring[l->head % LANE_OPS] : NULL; }

static void complete(executor *e, lane *l, const entry *x, double began)
{
    double now = clock_seconds();
    l->completed = x->serial;
    l->when[x->serial % e->history] = now;
    l->head++;
    l->running = false;
    tally_seconds(e->tally, &x->op, now - began);
    if (e->spans)
        e->spans[e->span_count++ % e->options.span_capacity] =
            (span){ x->op.kind, (int)(l - e->lane), x->op.origin, began, now };
    world_progress();
}

/* Drops satisfied waits; returns the head if it is an operation that may start. */
static entry *lane_ready(executor *e, lane *l)
{
    entry *x = lane_head(l);
    for (; x && x->waits && e->lane[x->target].completed >= x->serial; x = lane_head(l)) l->head++;
    return x && !x->waits && !l->running ? x : NULL;
}

static bool poll_transfers(executor *e)
{
    bool any = false;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        lane *l = &e->lane[i];
        if (!l->running || !host_transfer_test(l->transfer)) continue;
        entry *x = lane_head(l);
        if (l->proof) access_proof_after(l->proof, &x->op);
        complete(e, l, x, l->began);
        any = true;
    }
    return any;
}

/* The arena gives each queue the scratch that a measuring pass found. */
static void check_scratch(const lane *l, const op *o)
{
    char what[OP_TEXT];
    size_t needed = op_is_transfer(o->kind) ? host_transfer_scratch(o) : host_scratch_bytes(o);
    if (needed > l->scratch_bytes)
        FAIL("%s needs %zu bytes of scratch, its queue has %zu", op_describe(o, what, sizeof what), needed,
             l->scratch_bytes);
}

static void start(executor *e, lane *l, const entry *x)
{
    l->began = clock_seconds();
    if (l->proof) check_scratch(l, &x->op);
    if (l->proof) access_proof_before(l->proof, &x->op);
    if (op_is_transfer(x->op.kind)) {
        host_transfer_start(l->transfer, &x->op, l->scratch);
        l->running = true;
        return;
    }
    host_compute(&x->op, l->scratch);
    if (l->proof) access_proof_after(l->proof, &x->op);
    complete(e, l, x, l->began);
}

/* The ready lane to run next, or NULL: the one submitted first, or any. */
static lane *choose(executor *e)
{
    lane *ready[HAZARD_QUEUES], *first = NULL;
    int count = 0;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        lane *l = &e->lane[i];
        entry *x = lane_ready(e, l);
        if (!x) continue;
        ready[count++] = l;
        if (!first || x->order < lane_head(first)->order) first = l;
    }
    if (!e->options.hostile || count == 0) return first;
    philox_block draw = { { (uint32_t)e->decisions++, (uint32_t)e->options.world_rank, 0, 2 } };
    return ready[mulhi(philox4x32(draw, e->options.order_seed, 0).word[0], (uint32_t)count)];
}

/* The transfer at the end of the chain of waits that starts with the one submitted first; NULL if there is no such
 * chain. */
static lane *blocking_transfer(executor *e)
{
    lane *l = NULL;
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        entry *x = lane_head(&e->lane[i]);
        if (x && x->waits && (!l || x->order < lane_head(l)->order)) l = &e->lane[i];
    }
    for (int hops = 0; l && !l->running && hops < HAZARD_QUEUES; hops++) {
        const entry *x = lane_head(l);
        l = x && x->waits ? &e->lane[x->target] : NULL;
    }
    return l && l->running ? l : NULL;
}

/* The transfer that has waited longest, or NULL. */
static lane *oldest_transfer(executor *e)
{
    lane *oldest = NULL;
    for (int i = 0; i < HAZARD_QUEUES; i++)
        if (e->lane[i].running && (!oldest || e->lane[i].began < oldest->began)) oldest = &e->lane[i];
    return oldest;
}

static void stalled(lane *l)
{
    char what[OP_TEXT];
    FAIL_STATUS(STATUS_HANG, "%s: no rank of this node has completed an operation for %.0f s",
                op_describe(&lane_head(l)->op, what, sizeof what), world_stall_seconds());
}

/* The first operation behind the waits at the lane's head. */
static const char *waiting_op(const lane *l, char *what, size_t length)
{
    uint64_t i = l->head;
    while (i < l->tail && l->ring[i % LANE_OPS].waits) i++;
    return i < l->tail ? op_describe(&l->ring[i % LANE_OPS].op, what, length) : "the next operation";
}

static void deadlocked(executor *e)
{
    char what[OP_TEXT];
    for (int i = 0; i < HAZARD_QUEUES; i++) {
        entry *x = lane_head(&e->lane[i]);
        if (x)
            FAIL("%s waits for operation %llu of queue %d, which can never complete",
                 waiting_op(&e->lane[i], what, sizeof what), (unsigned long long)x->serial, x->target);
    }
    FAIL("a mark is waited for that was never submitted");
}

/* Nothing can run: wait for a transfer. */
static void wait_for_transfers(executor *e)
{
    double begin = clock_seconds();
    lane *l = blocking_transfer(e);
    if (!l) l = oldest_transfer(e);
    if (!l) deadlocked(e);
    const entry *x = lane_head(l);
    while (!poll_transfers(e))
        if (world_stalled(l->began)) stalled(l);
    tally_exposed(e->tally, &x->op, clock_seconds() - begin);
}

static void advance(executor *e)
{
    double begin = clock_seconds();
    lane *l = choose(e);
    if (l) {
        start(e, l, lane_head(l));
        poll_transfers(e);
    } else {
        wait_for_transfers(e);
    }
    e->tally->run_seconds += clock_seconds() - begin;
}

static entry *append(executor *e, int at)
{
    lane *l = &e->lane[at];
    if (!l->ring) lane_open(e, l);
    while (l->tail - l->head == LANE_OPS) advance(e);
    entry *x = &l->ring[l->tail % LANE_OPS];
    x->order = e->submitted++;
    return x;
}

void executor_submit(executor *e, int at, uint64_t serial, const op *o)
{
    entry *x = append(e, at);
    x->waits = false;
    x->serial = serial;
    x->op = *o;
    e->lane[at].tail++;
}

void executor_wait(executor *e, int at, int target, uint64_t serial)
{
    entry *x = append(e, at);
    x->waits = true;
    x->target = target;
    x->serial = serial;
    e->lane[at].tail++;
}

void executor_sync(executor *e, int at, uint64_t serial)
{
    while (e->lane[at].completed < serial) advance(e);
}

double executor_completed(executor *e, int at, uint64_t serial)
{
    const lane *l = &e->lane[at];
    if (l->completed >= serial + e->history)
        FAIL("operation %llu of queue %d completed too long ago to say when", (unsigned long long)serial, at);
    return l->when ? l->when[serial % e->history] : 0.0;
}

void executor_scratch(executor *e, int at, void *memory, size_t bytes)
{
    if (!e->lane[at].ring) lane_open(e, &e->lane[at]);
    e->lane[at].scratch = memory;
    e->lane[at].scratch_bytes = bytes;
}

const span *executor_spans(executor *e, int64_t *count)
{
    *count = e->span_count < e->options.span_capacity ? e->span_count : e->options.span_capacity;
    return e->spans;
}
