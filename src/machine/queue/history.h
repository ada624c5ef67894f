/* What a machine's queues have completed, and when: the backend writes it; marks, spans and the tally read it. */
#pragma once
#include "machine/queue/hazard.h"
#include "machine/queue/kind.h"
#include "machine/queue/tally.h"

/* One operation that ran; times in clock_seconds. */
typedef struct {
    op_kind kind;
    int queue;
    origin origin;
    double begin, end;
    const char *axis; /* of a transfer; else NULL */
    uint64_t number;  /* of a transfer in its group, from 1; else 0 */
} span;

enum { MARK_HISTORY = 1 << 15 };
typedef struct {
    tally *tally;
    uint64_t completed[HAZARD_QUEUES]; /* the last serial; a queue's operations complete in order, from 1 */
    uint64_t kept;                     /* completion times of a queue */
    double *end;                       /* [HAZARD_QUEUES][kept], by serial */
    span *spans;
    int64_t span_count, span_capacity;
    tally_step *step; /* [steps]; owned */
    int64_t steps;
} history;

void history_open(history *h, const machine_options *options, tally *t);
void history_close(history *h);
/* The queue's next operation has completed: its seconds, its time, its span. Somebody made progress. */
void history_complete(history *h, const span *s);
/* As machine_keep_steps. */
void history_keep_steps(history *h, int64_t steps);
/* In which nothing could run but a transfer of that step on that axis was waited for. */
void history_exposed(history *h, const char *axis, int64_t step, double seconds);
/* In which this rank computed, could run, and its processor ran others. */
void history_run_delay(history *h, int64_t step, double seconds);
/* Returns whether the time of that operation is still kept; and when it completed, 0 for serial 0. */
bool history_keeps(const history *h, int queue, uint64_t serial);
double history_end(const history *h, int queue, uint64_t serial);
