/* What the schedules share: each is one function that writes the forwards and backwards of a stage, in order. */
#pragma once
#include "plan/schedule/schedule.h"

typedef struct {
    int64_t stages, stage, chunks, microbatches;
} schedule_place;

/* Appends an action; the list has room for every forward and backward of its stage. */
void schedule_add(schedule *s, schedule_verb verb, int64_t chunk, int64_t microbatch);

#define SCHEDULE_PROTOTYPE(constant, write, name) void write(schedule *s, schedule_place p);
SCHEDULES(SCHEDULE_PROTOTYPE)
