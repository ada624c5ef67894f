/* Schedules as data: the ordered list of actions of one pipeline stage in a step. A schedule is one file
 * (schedule_NAME.c) and one row in plan/bench_case.h. */
#pragma once
#include "plan/bench_case.h"
#include <stdio.h>

/* BACKWARD_WEIGHT: a weight gradient that its backward deferred (schedule_defers). */
typedef enum { FORWARD, BACKWARD, BACKWARD_WEIGHT } schedule_verb;
typedef struct {
    schedule_verb verb;
    int chunk;
    int64_t microbatch;
} schedule_action;
typedef struct {
    int64_t length;
    schedule_action *action;
} schedule; /* owned; free with schedule_free */

/* Returns the list of one stage. Pipeline degree 1 with 1f1b: F0.0 B0.0 F0.1 B0.1 ... Every schedule runs the backwards
 * of a chunk in microbatch order. Interleaved needs microbatches divisible by the pipeline degree. Ends the program if
 * memory is short. */
schedule schedule_make(const bench_case *c, int stage);
void schedule_free(schedule *s);
/* The stage for which the function of a schedule writes forwards and backwards in order. */
typedef struct {
    int64_t stages, stage, chunks, microbatches;
} schedule_place;
#define SCHEDULE_PROTOTYPE(constant, write, name) void write(schedule *s, schedule_place p);
SCHEDULES(SCHEDULE_PROTOTYPE)
/* Appends an action. The list has memory for every action of its stage. */
static inline void schedule_add(schedule *s, schedule_verb verb, int64_t chunk, int64_t microbatch)
{
    s->action[s->length++] = (schedule_action){ verb, (int)chunk, microbatch };
}

/* Returns whether the LM head's weight gradient of this microbatch is deferred. In a pipeline, those of the last
 * head_deferral microbatches are. The last stage computes them after its last backward, while the earlier stages still
 * work. The last microbatches are deferred, not the first, so that the head's gradient accumulates in microbatch order
 * and has the same bits as without deferral. */
bool schedule_defers(const bench_case *c, int64_t microbatch);
/* Returns the first deferred microbatch; the number of microbatches if there is none. */
int64_t schedule_first_deferred(const bench_case *c);

/* Returns the most microbatches whose forward is done and whose backward is not, over all chunks. What a deferred
 * weight gradient needs (the head's input, the gradient of its output) is not counted. */
int64_t schedule_live(const schedule *s);
/* Returns the same for one chunk: the number of its tape slots. */
int64_t schedule_live_chunk(const schedule *s, int chunk);
/* Text of an action, such as "F0.3". */
typedef struct {
    char text[40];
} action_text;
action_text schedule_action_text(const schedule_action *a);
/* Prints "F0.0 B0.0 ...", with deferred weight gradients (W0.0) last. */
void schedule_print(const schedule *s, FILE *out);
