/* The submissions to a machine on paper, in order: the input of machine/timeline/timeline.h. */
#pragma once
#include "machine/op/fabric.h"
#include "machine/queue/hazard.h"
#include "machine/queue/preparation.h"

/* An operation of another queue that must complete first. */
typedef struct {
    int queue;
    uint64_t serial;
} dependency;

/* Submissions that take the same time: they have the same note, group, phase and name. note: index in preparation.note;
 * group: index in submissions.group, -1 if it is not a transfer. */
typedef struct {
    int note, group;
    phase phase;
    char name[NOTE_NAME];
} work_item;

/* One submission. microbatch, layer, step and chunk are as in origin. item: index in submissions.item. */
typedef struct {
    int32_t item, microbatch;
    uint32_t first_wait; /* index in submissions.wait */
    int16_t layer;
    int8_t step, chunk;
    uint8_t queue, waits;
} submitted;

/* All lists are owned. group: copies, of which only axis, ranks and channel are valid. */
typedef struct submissions {
    submitted *list;
    work_item *item;
    dependency *wait;
    group *group;
    int64_t length, capacity, waits, wait_capacity;
    int items, groups;
    int64_t in_queue[HAZARD_QUEUES];
    bool yields[HAZARD_QUEUES];
} submissions;
