/* What a machine on paper was asked to run, in order, as machine/timeline/timeline.h runs it. */
#pragma once
#include "machine/op/fabric.h"
#include "machine/queue/hazard.h"
#include "machine/queue/preparation.h"

/* An operation of another queue that comes first. */
typedef struct {
    int queue;
    uint64_t serial;
} dependency;

/* Work that takes as long each time: a note of the preparation, whose name and phase are those of its first submission,
 * and of a transfer the group whose transfer it is. */
typedef struct {
    int note, group; /* group: index, or -1 */
    phase phase;
    char name[NOTE_NAME];
} work_item;

/* One submission; the rest as in origin. */
typedef struct {
    int32_t item, microbatch;
    uint32_t first_wait; /* in submissions.wait */
    int16_t layer;
    int8_t step, chunk;
    uint8_t queue, waits;
} submitted;

/* All lists are owned. A group's memory may be gone: it is a copy, whose name, ranks and channel are right. */
typedef struct submissions {
    submitted *list;
    work_item *item;
    dependency *wait;
    group *group;
    int64_t length, capacity, waits, wait_capacity;
    int items, groups;
    int64_t of_queue[HAZARD_QUEUES];
    bool yields[HAZARD_QUEUES];
} submissions;
