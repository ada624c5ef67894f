/* What the CUDA executor keeps of its queues: executor.c launches on lanes, harvest.c looks at what they have
 * completed. */
#pragma once
#include "machine/cuda/cuda.h"
#include "machine/cuda/device/device_clock.h"
#include "machine/cuda/executor.h"

/* A driver takes about a thousand entries of a stream; beyond that a launch blocks, unwatched and untimed. An operation
 * is one to six launches, its waits and an event: on the average of a step fewer than eight. */
enum { LANE_OPS = 128, LANE_WAITS = HAZARD_QUEUES + 1 };

/* What an operation waits for; transfer: its group, if it is one. */
typedef struct {
    int target;
    uint64_t serial;
    struct group *transfer;
} dependency;

/* What remains of an operation that was launched. */
typedef struct {
    op_kind kind;
    origin origin;
    struct group *group; /* of a transfer */
    dependency wait[LANE_WAITS];
    int waits;
    double submitted;
    cudaEvent_t event; /* made when its place is first used */
} entry;

typedef struct {
    entry *ring;                   /* [LANE_OPS], by serial */
    uint64_t submitted, completed; /* serials */
    cudaStream_t stream;
    dependency pending[LANE_WAITS];
    int pendings;  /* of the next operation */
    double *when;  /* [history] completion times, by serial */
    double last;   /* the latest of them */
    double looked; /* when the first that is not completed was seen incomplete */
    void *scratch;
    size_t scratch_bytes;
} lane;

struct cuda_executor {
    machine_options options;
    tally *tally;
    lane lane[HAZARD_QUEUES];
    uint64_t history; /* completion times kept per lane */
    device_clock *clock;
    int transfers_priority, computing_priority;
    dependency collective; /* the last one submitted; serial 0: none yet */
    span *spans;
    int64_t span_count;
};

/* The place of an operation in the ring. */
entry *lane_entry(lane *l, uint64_t serial);
/* Looks at all lanes until this one has completed `serial`; ends the run if nothing moves for too long. */
void harvest_until(cuda_executor *e, lane *l, uint64_t serial);
