/* What a machine on paper was asked to run, in order: the trainer's whole steps, as timeline.h runs them. */
#pragma once
#include "machine/op/fabric.h"
#include "machine/queue/preparation.h"

/* Work that costs the same each time: a note of the preparation and, of a transfer, the group whose transfer it is. */
typedef struct {
    int note, group; /* group: index, or -1 */
} work_item;
/* One submission. meaning of the places: as in origin. */
typedef struct {
    int32_t item, microbatch;
    uint32_t first_wait; /* in submissions.wait */
    int16_t layer;
    int8_t step, chunk;
    uint8_t queue, waits, phase;
} submitted;
/* All of it is owned. A group's `connection` is gone. */
typedef struct submissions {
    submitted *list;
    work_item *item;
    dependency_of *wait;
    group *group;
    int64_t length, waits;
    int items, groups;
    bool yields[HAZARD_QUEUES];
    uint64_t of_queue[HAZARD_QUEUES]; /* submissions of each queue */
} submissions;
