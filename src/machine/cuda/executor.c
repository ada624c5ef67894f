/* Launches each operation on its queue's stream at submission, and then records an event (see poll.c). */
#include "machine/cuda/executor.h"
#include "base/clock.h"
#include "base/memory.h"
#include "machine/cuda/attention/attention.h"
#include "machine/cuda/device/device.h"
#include "machine/cuda/kernels/compute.h"
#include "machine/cuda/products/matmul.h"
#include "machine/cuda/queue.h"
#include "machine/cuda/transfers/fabric.h"
#include "machine/op/activity.h"

void *cuda_executor_open(const machine_options *options, history *h)
{
    cuda_executor *e = allocate(1, sizeof *e, "the executor");
    cuda_device_use();
    cuda_matmul_open();
    cuda_attention_open(&options->tuning);
    e->options = *options;
    e->history = h;
    e->clock = device_clock_open();
    e->staging = staging_open();
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&e->last_priority, &e->first_priority));
    return e;
}

static void close_queue(cuda_queue *q)
{
    for (int i = 0; q->ring && i < QUEUE_OPS; i++)
        if (q->ring[i].event) CUDA_CHECK(cudaEventDestroy(q->ring[i].event));
    if (q->stream) CUDA_CHECK(cudaStreamDestroy(q->stream));
    free(q->ring);
}

void cuda_executor_close(void *state)
{
    cuda_executor *e = state;
    for (int i = 0; i < HAZARD_QUEUES; i++) close_queue(&e->queue[i]);
    staging_close(e->staging);
    device_clock_close(e->clock);
    cuda_matmul_close();
    free(e);
}

size_t cuda_scratch_of(const machine_tuning *t, const op *o)
{
    cuda_attention_settings(t);
    return op_is_transfer(o->kind) ? 0 : cuda_scratch_bytes(o);
}

/* A queue whose first operation is a transfer has the highest priority, because peers wait for its transfers. */
static int priority_of(const cuda_executor *e, const submission *first)
{
    if (op_is_transfer(first->op->kind)) return e->first_priority;
    return first->yields || e->first_priority == e->last_priority ? e->last_priority : e->last_priority - 1;
}

static void open_queue(const cuda_executor *e, cuda_queue *q, const submission *first)
{
    CUDA_CHECK(cudaStreamCreateWithPriority(&q->stream, cudaStreamNonBlocking, priority_of(e, first)));
    q->overlaps = first->yields;
    q->ring = allocate(QUEUE_OPS, sizeof *q->ring, "the operations of a queue");
}

/* Waits for exactly that operation's event. Waiting for a later one of its queue could make a cycle across ranks. */
static void stream_wait(cuda_executor *e, const submission *s, entry *x, dependency on)
{
    const cuda_queue *target = &e->queue[on.queue];
    if (on.serial > target->submitted) backend_fail_deadlock(s->op, &on);
    if (on.serial <= e->history->completed[on.queue]) return;
    const entry *earlier = queue_entry(target, on.serial);
    x->wait[x->waits++] = (cuda_wait){ on, earlier->axis };
    CUDA_CHECK(cudaStreamWaitEvent(e->queue[s->queue].stream, earlier->event, 0));
}

/* Collectives of groups that take turns wait for the one submitted before. NCCL's kernels occupy multiprocessors until
 * their peers arrive. If two start in different orders on two ranks, they may wait for each other forever. All ranks
 * submit them in the same order. Groups that are `apart` have separate thread blocks and need no order. Exchanges take
 * no turns: a receive is posted long before its sender arrives, and the sender may wait for an operation that would
 * have to wait for that receive. */
static bool takes_turns(const op *o)
{
    return op_is_transfer(o->kind) && o->kind != OP_EXCHANGE && !o->args.fabric.group->apart;
}

static void stream_wait_all(cuda_executor *e, const submission *s, entry *x)
{
    dependency previous = e->last_collective;
    x->waits = 0;
    for (int i = 0; i < s->waits; i++) stream_wait(e, s, x, s->wait[i]);
    if (!takes_turns(s->op)) return;
    if (previous.serial && previous.queue != s->queue) stream_wait(e, s, x, previous);
    e->last_collective = (dependency){ s->queue, s->serial };
}

/* Fills scratch, and every tensor that a computing operation overwrites completely, with NaN. */
static void poison(const cuda_queue *q, const submission *s, size_t scratch)
{
    const op *o = s->op;
    if (scratch) CUDA_CHECK(cudaMemsetAsync(s->scratch, 0xFF, scratch, q->stream));
    if (op_is_transfer(o->kind)) return;
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        if (x->access == WRITE && tensor_present(&x->tensor) && tensor_contiguous(&x->tensor) &&
            tensor_span(&x->tensor))
            CUDA_CHECK(cudaMemsetAsync(x->tensor.data, 0xFF, tensor_span(&x->tensor), q->stream));
    }
}

static void launch(const cuda_executor *e, const submission *s)
{
    const cuda_queue *q = &e->queue[s->queue];
    size_t scratch = cuda_scratch_of(&e->options.tuning, s->op);
    backend_check_scratch(s->op, scratch, s->scratch_bytes);
    if (e->options.prove_access) poison(q, s, scratch);
    if (op_is_transfer(s->op->kind)) {
        activity entered = transfer_activity(s->op);
        activity_enter(&entered);
        cuda_transfer(s->op, q->stream);
        return;
    }
    cuda_compute(s->op, s->scratch, s->scratch_bytes, q->stream);
}

/* Returns the next entry of the ring. Its event can be used again, because its previous operation is complete. */
static entry *append(cuda_executor *e, const submission *s)
{
    cuda_queue *q = &e->queue[s->queue];
    uint64_t completed = e->history->completed[s->queue];
    const op *o = s->op;
    if (!q->ring) open_queue(e, q, s);
    if (q->submitted - completed == QUEUE_OPS) poll_until(e, s->queue, completed + 1);
    entry *x = queue_entry(q, s->serial);
    if (!x->event) CUDA_CHECK(cudaEventCreate(&x->event));
    x->kind = o->kind;
    x->origin = o->origin;
    x->watched = op_is_transfer(o->kind) ? transfer_activity(o) : op_activity(o->kind, &o->origin);
    if (op_is_transfer(o->kind)) q->axis = o->args.fabric.group->axis;
    x->axis = q->axis;
    x->submitted = clock_seconds();
    return x;
}

void cuda_executor_submit(void *state, const submission *s)
{
    cuda_executor *e = state;
    cuda_queue *q = &e->queue[s->queue];
    entry *x = append(e, s);
    stream_wait_all(e, s, x);
    launch(e, s);
    CUDA_CHECK(cudaEventRecord(x->event, q->stream));
    q->submitted = s->serial;
}

void cuda_executor_sync(void *state, int queue, uint64_t serial)
{
    poll_until(state, queue, serial);
    CUDA_CHECK(cudaGetLastError());
}

void cuda_executor_upload(void *state, void *to, const void *from, size_t bytes)
{
    staging_upload(((cuda_executor *)state)->staging, to, from, bytes);
}

void cuda_executor_download(void *state, void *to, const void *from, size_t bytes)
{
    staging_download(((cuda_executor *)state)->staging, to, from, bytes);
}
