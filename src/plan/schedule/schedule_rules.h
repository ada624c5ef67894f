/* What the schedules share: each is one function that writes the forwards and backwards of a stage, in order. */
#pragma once
#include "plan/schedule/schedule.h"

typedef struct {
    int64_t stages, stage, chunks, microbatches;
} schedule_place;

#define SCHEDULE_PROTOTYPE(constant, write, name) void write(schedule *s, schedule_place p);
SCHEDULES(SCHEDULE_PROTOTYPE)
