/* The state of the CUDA executor's queues. executor.c launches operations on them, poll.c finds completed ones. */
#pragma once
#include "machine/cuda/device/device_clock.h"
#include "machine/cuda/device/memory.h"
#include "machine/queue/backend.h"

/* The driver holds about 1000 entries of a stream; then launches block. An operation makes about 8 entries. */
enum { QUEUE_OPS = 128, QUEUE_WAITS = HAZARD_QUEUES + 1 };

/* An operation that another one waits for. axis: of the last transfer in its queue so far; NULL if there was none. */
typedef struct {
    dependency on;
    const char *axis;
} cuda_wait;

/* A launched operation. */
typedef struct {
    op_kind kind;
    origin origin;
    activity watched; /* what the watch prints; only transfers have a key */
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
    const char *axis;     /* axis of its last transfer; NULL: none */
    bool overlaps;        /* its operations overlap another queue's computation (weight gradients) */
    double incomplete_at; /* time of the last poll that found its first pending operation incomplete */
} cuda_queue;

typedef struct {
    machine_options options;
    history *history;
    cuda_queue queue[HAZARD_QUEUES];
    device_clock *clock;
    staging *staging;
    int first_priority, last_priority; /* stream priorities; the smaller number runs first */
    dependency last_collective;        /* serial 0: none yet */
} cuda_executor;

/* Returns the ring's entry of an operation. */
static inline entry *queue_entry(const cuda_queue *q, uint64_t serial) { return &q->ring[serial % QUEUE_OPS]; }

/* Polls all queues until this one has completed `serial`. Ends the run if a communicator reports an error. */
void poll_until(cuda_executor *e, int queue, uint64_t serial);
