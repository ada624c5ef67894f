/* The operations that a machine has completed, with their times. The backend writes it. */
#pragma once
#include "machine/queue/hazard.h"
#include "machine/queue/kind.h"
#include "machine/queue/tally.h"

/* One operation that ran. The times are those of clock_seconds. */
typedef struct {
    op_kind kind;
    int queue;
    origin origin;
    double begin, end;
    const char *axis; /* axis of a transfer; else NULL */
    uint64_t number;  /* number of a transfer in its group, from 1; else 0 */
} span;

enum { MARK_HISTORY = 1 << 15 };
typedef struct {
    tally *tally;
    uint64_t completed[HAZARD_QUEUES]; /* last completed serial; operations of a queue complete in order */
    uint64_t kept;                     /* number of completion times kept for each queue */
    double *end;                       /* [HAZARD_QUEUES][kept], by serial */
    span *spans;
    int64_t span_count, span_capacity;
    tally_step *step; /* [steps]; owned */
    int64_t steps;
} history;

void history_open(history *h, const machine_options *options, tally *t);
void history_close(history *h);
/* Records that the next operation of the span's queue is complete, and publishes the progress to the watch. */
void history_complete(history *h, const span *s);
void history_keep_steps(history *h, int64_t steps);
/* Adds seconds in which computing waited only for a transfer of that step on that axis. */
void history_exposed(history *h, const char *axis, int64_t step, double seconds);
/* Adds seconds of computing in which the processor ran other processes. */
void history_run_delay(history *h, int64_t step, double seconds);
bool history_keeps(const history *h, int queue, uint64_t serial);
/* Returns when that operation completed; 0 for serial 0. Ends the program unless history_keeps. */
double history_end(const history *h, int queue, uint64_t serial);
