/* The state of the CUDA executor's queues. executor.c launches operations on them, poll.c finds completed ones. */
#pragma once
#include "machine/cuda/device/device_clock.h"
#include "machine/cuda/device/memory.h"
#include "machine/queue/backend.h"

/* A driver queues about 1000 entries of a stream, then a launch blocks unseen. An operation makes about 8 entries. */
enum { QUEUE_OPS = 128, QUEUE_WAITS = HAZARD_QUEUES + 1 };

/* An operation that another one waits for. axis: the axis of its queue's last transfer; NULL if there was none. */
typedef struct {
    dependency on;
    const char *axis;
} cuda_wait;

/* The data that is kept of a launched operation. */
typedef struct {
    op_kind kind;
    origin origin;
    activity watched; /* for the watch; only a transfer's group has a key */
    const char *axis; /* as in cuda_wait */
    cuda_wait wait[QUEUE_WAITS];
    int waits;
    double submitted;
    cudaEvent_t event; /* created when the entry is first used */
} entry;

typedef struct {
    entry *ring; /* [QUEUE_OPS], indexed by serial */
    uint64_t submitted;
    cudaStream_t stream;
    const char *axis; /* axis of its last transfer, to which its other operations belong; NULL: none */
    bool beside;      /* its operations overlap another queue's computation (weight gradients) */
    double looked;    /* when its first pending operation was last seen incomplete */
} cuda_queue;

typedef struct {
    machine_options options;
    history *history;
    cuda_queue queue[HAZARD_QUEUES];
    device_clock *clock;
    staging *staging;
    int first_priority, last_priority; /* stream priorities; the smaller number runs first */
    dependency collective;             /* the last one submitted; serial 0: none yet */
} cuda_executor;

/* Returns the ring's entry of an operation. */
static inline entry *queue_entry(const cuda_queue *q, uint64_t serial) { return &q->ring[serial % QUEUE_OPS]; }

/* Polls all queues until this one has completed `serial`. Ends the run if a communicator reports an error. */
void poll_until(cuda_executor *e, int queue, uint64_t serial);
