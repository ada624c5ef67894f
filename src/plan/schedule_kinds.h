/* The schedules, a row each: its constant, the function that writes the list of a stage
 * (plan/schedule/schedule_NAME.c), its name in a deck. Constants, prototypes, table and names all come from here. */
#pragma once

#define SCHEDULES(row)                                                                                                 \
    row(SCHEDULE_GPIPE, gpipe_write, "gpipe") row(SCHEDULE_1F1B, one_forward_one_backward_write, "1f1b")               \
        row(SCHEDULE_INTERLEAVED, interleaved_write, "interleaved")

#define SCHEDULE_CONSTANT(constant, write, name) constant,
typedef enum { SCHEDULES(SCHEDULE_CONSTANT) } schedule_kind;
