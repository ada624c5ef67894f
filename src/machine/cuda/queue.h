/* What the CUDA executor keeps of its queues: executor.c launches on them, poll.c looks at what they have completed. */
#pragma once
#include "machine/cuda/device/device_clock.h"
#include "machine/cuda/device/memory.h"
#include "machine/queue/backend.h"

/* A driver takes about a thousand entries of a stream, then a launch blocks, unwatched; an operation is some eight. */
enum { QUEUE_OPS = 128, QUEUE_WAITS = HAZARD_QUEUES + 1 };

/* What an operation waits for. axis: of a transfer, or of the transfers of its queue; NULL: computing. */
typedef struct {
    dependency on;
    const char *axis;
} cuda_wait;

/* What remains of an operation that was launched. */
typedef struct {
    op_kind kind;
    origin origin;
    activity watched; /* of a transfer; else its group has no key */
    const char *axis; /* as a wait's */
    cuda_wait wait[QUEUE_WAITS];
    int waits;
    double submitted;
    cudaEvent_t event; /* made when its place is first used */
} entry;

typedef struct {
    entry *ring; /* [QUEUE_OPS], by serial */
    uint64_t submitted;
    cudaStream_t stream;
    const char *axis; /* of its last transfer, to which what else it runs belongs; NULL: none */
    bool beside;      /* weight gradients: they run beside the computation of another queue */
    double looked;    /* when the first that is not completed was seen incomplete */
} cuda_queue;

typedef struct {
    machine_options options;
    history *history;
    cuda_queue queue[HAZARD_QUEUES];
    device_clock *clock;
    staging *staging;
    int first_priority, last_priority; /* the smaller goes first */
    dependency collective;             /* the last one submitted; serial 0: none yet */
} cuda_executor;

/* The place of an operation in the ring. */
static inline entry *queue_entry(const cuda_queue *q, uint64_t serial) { return &q->ring[serial % QUEUE_OPS]; }

/* Looks at all queues until this one has completed `serial`; ends the run if nothing moves for too long. */
void poll_until(cuda_executor *e, int queue, uint64_t serial);
