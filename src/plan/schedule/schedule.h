/* Schedules as data: the ordered list of what one pipeline stage does in a step. A schedule is one file
 * (schedule_NAME.c) and one row in plan/bench_case.h. */
#pragma once
#include "plan/bench_case.h"
#include <stdio.h>

/* BACKWARD_WEIGHT: the weight gradient that a backward left out (schedule_defers). */
typedef enum { FORWARD, BACKWARD, BACKWARD_WEIGHT } schedule_verb;
typedef struct {
    schedule_verb verb;
    int chunk;
    int64_t microbatch;
} schedule_action;
typedef struct {
    int64_t length;
    schedule_action *action;
} schedule; /* owned; schedule_free */

/* The list of one stage. Pipeline degree 1 with 1f1b: F0.0 B0.0 F0.1 B0.1 ... Every schedule runs the backwards of a
 * chunk in microbatch order. interleaved: microbatches divisible by the pipeline degree. Fails without memory. */
schedule schedule_make(const bench_case *c, int stage);
void schedule_free(schedule *s);
/* A schedule is one function that writes the forwards and backwards of a stage, in order. */
typedef struct {
    int64_t stages, stage, chunks, microbatches;
} schedule_place;
#define SCHEDULE_PROTOTYPE(constant, write, name) void write(schedule *s, schedule_place p);
SCHEDULES(SCHEDULE_PROTOTYPE)
/* Appends an action; the list has room for every action of its stage. */
static inline void schedule_add(schedule *s, schedule_verb verb, int64_t chunk, int64_t microbatch)
{
    s->action[s->length++] = (schedule_action){ verb, (int)chunk, microbatch };
}

/* Does the backward of this microbatch leave the weight gradient of the LM head to the drain? The case's head_deferral
 * last microbatches do, in a pipeline: after its last backward the last stage makes them up, W after W, where it would
 * wait for the stages before it. Since the last ones are deferred, not the first, the head's gradient still accumulates
 * in microbatch order, and is bitwise the same with and without deferral. */
bool schedule_defers(const bench_case *c, int64_t microbatch);
/* The first of them; the number of microbatches if there is none. */
int64_t schedule_first_deferred(const bench_case *c);

/* Most microbatches whose forward is done and whose backward is not, over all chunks. What a deferred weight gradient
 * needs (the head's input and the gradient of its output) lives on until its W and is not counted. */
int64_t schedule_live(const schedule *s);
/* The same of one chunk: tape slots that it needs. */
int64_t schedule_live_chunk(const schedule *s, int chunk);
/* "F0.3" */
typedef struct {
    char text[40];
} action_text;
action_text schedule_action_text(const schedule_action *a);
/* Prints "F0.0 B0.0 ...", the drain's W0.0 last. */
void schedule_print(const schedule *s, FILE *out);
