/* Schedules as data: the ordered list of what one pipeline stage does in a step. */
#pragma once
#include "plan/bench_case.h"
#include <stdio.h>

typedef enum { FORWARD, BACKWARD } schedule_verb;
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
/* Most microbatches whose forward is done and whose backward is not, over all chunks: tape slots needed. */
int64_t schedule_live(const schedule *s);
/* Is this the last backward of the chunk in the step? Then its gradients are done. */
bool schedule_last_backward(const schedule *s, int64_t index);
/* Prints "F0.0 B0.0 ..." */
void schedule_print(const schedule *s, FILE *out);
