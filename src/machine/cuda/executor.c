/* The CUDA executor: an operation is launched on its queue's stream as it is submitted, and an event behind it says
 * when it is complete. Whoever waits looks at all lanes (harvest.c). */
#include "base/clock.h"
#include "base/fail.h"
#include "machine/cuda/lane.h"
#include "machine/cuda/transfers/fabric.h"
#include <stdlib.h>

cuda_executor *cuda_executor_open(const machine_options *options, tally *t)
{
    cuda_executor *e = calloc(1, sizeof *e);
    if (!e) FAIL("no memory for the executor");
    e->options = *options;
    e->history = (uint64_t)(options->mark_history > MARK_HISTORY ? options->mark_history : MARK_HISTORY);
    e->tally = t;
    e->clock = device_clock_open();
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&e->computing_priority, &e->transfers_priority));
    if (options->span_capacity) e->spans = calloc((size_t)options->span_capacity, sizeof *e->spans);
    return e;
}

static void lane_close(lane *l)
{
    for (int i = 0; l->ring && i < LANE_OPS; i++)
        if (l->ring[i].event) CUDA_CHECK(cudaEventDestroy(l->ring[i].event));
    if (l->stream) CUDA_CHECK(cudaStreamDestroy(l->stream));
    free(l->ring);
    free(l->when);
}

void cuda_executor_close(cuda_executor *e)
{
    for (int i = 0; i < HAZARD_QUEUES; i++) lane_close(&e->lane[i]);
    device_clock_close(e->clock);
    free(e->spans);
    free(e);
}

/* A queue that begins with a transfer is one of transfers: they go first, as peers wait for them. */
static void lane_open(cuda_executor *e, lane *l, op_kind first)
{
    int priority = op_is_transfer(first) ? e->transfers_priority : e->computing_priority;
    CUDA_CHECK(cudaStreamCreateWithPriority(&l->stream, cudaStreamNonBlocking, priority));
    l->ring = calloc(LANE_OPS, sizeof *l->ring);
    l->when = calloc((size_t)e->history, sizeof *l->when);
    if (!l->ring || !l->when) FAIL("no memory for a queue of %d operations", LANE_OPS);
}

/* The arena gives each queue the scratch that a measuring pass found. */
static void check_scratch(const lane *l, const op *o)
{
    char what[OP_TEXT];
    size_t needed = op_is_transfer(o->kind) ? cuda_transfer_scratch(o) : cuda_scratch_bytes(o);
    if (needed > l->scratch_bytes)
        FAIL("%s needs %zu bytes of scratch, its queue has %zu", op_describe(o, what, sizeof what), needed,
             l->scratch_bytes);
}

/* Of all_gather, reduce_scatter and all_reduce each waits for the one submitted before it, whatever its communicator:
 * NCCL's kernels hold multiprocessors until their peers have come, and two communicators that start in different orders
 * on two ranks may wait for each other. All ranks submit them in one order. Exchanges stay out: a receive is posted
 * long before its sender can come, and what the chain would hold up behind it may be what lets the sender come. */
static bool is_collective(op_kind kind) { return op_is_transfer(kind) && kind != OP_EXCHANGE; }

static void chain(cuda_executor *e, int at, uint64_t serial, const op *o)
{
    lane *l = &e->lane[at];
    dependency before = e->collective;
    if (!is_collective(o->kind)) return;
    if (before.serial && before.target != at) l->pending[l->pendings++] = before;
    e->collective = (dependency){ .target = at, .serial = serial };
}

/* The stream waits for each event itself, never for a later one of its queue: between ranks that could be a circle. */
static void stream_wait(cuda_executor *e, lane *l, entry *x, const op *o)
{
    char what[OP_TEXT];
    x->waits = 0;
    for (int i = 0; i < l->pendings; i++) {
        dependency w = l->pending[i];
        lane *target = &e->lane[w.target];
        if (w.serial > target->submitted)
            FAIL("%s waits for operation %llu of queue %d, which can never complete", op_describe(o, what, sizeof what),
                 (unsigned long long)w.serial, w.target);
        if (w.serial <= target->completed) continue;
        const entry *earlier = lane_entry(target, w.serial);
        w.transfer = earlier->group;
        x->wait[x->waits++] = w;
        CUDA_CHECK(cudaStreamWaitEvent(l->stream, earlier->event, 0));
    }
    l->pendings = 0;
}

/* NaN into what a computing operation says that it writes whole. */
static void poison(const lane *l, const op *o)
{
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        if (x->access == WRITE && tensor_present(&x->tensor) && tensor_contiguous(&x->tensor) &&
            tensor_span(&x->tensor))
            CUDA_CHECK(cudaMemsetAsync(x->tensor.data, 0xFF, tensor_span(&x->tensor), l->stream));
    }
}

static void launch(const cuda_executor *e, int at, const op *o)
{
    const lane *l = &e->lane[at];
    if (op_is_transfer(o->kind)) {
        cuda_transfer(o, l->scratch, l->stream, at);
        return;
    }
    if (e->options.prove_access) poison(l, o);
    cuda_compute(o, l->scratch, l->scratch_bytes, l->stream);
}

/* The next place of the ring. Its event has done its work: the operation before it there is complete. */
static entry *append(cuda_executor *e, lane *l, const op *o)
{
    if (!l->ring) lane_open(e, l, o->kind);
    if (l->submitted - l->completed == LANE_OPS) harvest_until(e, l, l->completed + 1);
    entry *x = lane_entry(l, l->submitted + 1);
    if (!x->event) CUDA_CHECK(cudaEventCreate(&x->event));
    x->kind = o->kind;
    x->origin = o->origin;
    x->group = op_is_transfer(o->kind) ? o->args.fabric.group : NULL;
    x->submitted = clock_seconds();
    return x;
}

void cuda_executor_submit(cuda_executor *e, int at, uint64_t serial, const op *o)
{
    lane *l = &e->lane[at];
    entry *x = append(e, l, o);
    check_scratch(l, o);
    chain(e, at, serial, o);
    stream_wait(e, l, x, o);
    launch(e, at, o);
    CUDA_CHECK(cudaEventRecord(x->event, l->stream));
    l->submitted = serial;
}

void cuda_executor_wait(cuda_executor *e, int at, int target, uint64_t serial)
{
    lane *l = &e->lane[at];
    if (l->pendings == HAZARD_QUEUES) FAIL("queue %d is told to wait more often than there are queues", at);
    l->pending[l->pendings++] = (dependency){ .target = target, .serial = serial };
}

void cuda_executor_sync(cuda_executor *e, int at, uint64_t serial)
{
    harvest_until(e, &e->lane[at], serial);
    CUDA_CHECK(cudaGetLastError());
}

double cuda_executor_completed(cuda_executor *e, int at, uint64_t serial)
{
    const lane *l = &e->lane[at];
    if (l->completed >= serial + e->history)
        FAIL("operation %llu of queue %d completed too long ago to say when", (unsigned long long)serial, at);
    return l->when ? l->when[serial % e->history] : 0.0;
}

void cuda_executor_scratch(cuda_executor *e, int at, void *memory, size_t bytes)
{
    e->lane[at].scratch = memory;
    e->lane[at].scratch_bytes = bytes;
}

const span *cuda_executor_spans(cuda_executor *e, int64_t *count)
{
    *count = e->span_count < e->options.span_capacity ? e->span_count : e->options.span_capacity;
    return e->spans;
}
