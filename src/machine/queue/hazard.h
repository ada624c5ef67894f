/* The hazard checker: two operations that touch the same bytes, one of them writing, must be ordered by queues and
 * waits. A vector clock per queue, and per arena range the last writer and the last reader of every queue. */
#pragma once
#include "machine/op/op.h"

enum { HAZARD_QUEUES = 12, HAZARD_SENTENCES = 8 };
typedef struct hazard hazard;
typedef struct {
    uint64_t at[HAZARD_QUEUES];
} vector_clock; /* of each queue, the last operation that comes before */
/* count: of unordered operations and ranges; the first different sentences. */
typedef struct {
    int64_t count;
    int sentences;
    char sentence[HAZARD_SENTENCES][512];
} hazard_report;

hazard *hazard_open(void);
void hazard_close(hazard *h);
/* Returns whether the queue's next operation already follows operation `serial` (from 1) of queue `target`. */
bool hazard_ordered(const hazard *h, int queue, int target, uint64_t serial);
/* Operation `serial` of queue `target` and all that it followed; if it is thousands of operations old, itself only. */
vector_clock hazard_past(const hazard *h, int target, uint64_t serial);
/* The queue's next operation follows all of that. */
void hazard_follow(hazard *h, int queue, const vector_clock *past);
/* Operation `serial` of the queue: checks it against every earlier operation on its operands, then remembers it. */
void hazard_submit(hazard *h, int queue, uint64_t serial, const op *o);
/* The caller has waited for everything: all so far is ordered before all that follows. */
void hazard_join(hazard *h);
hazard_report *hazard_read(hazard *h);
/* What was found elsewhere counts, too. */
void hazard_report_add(hazard_report *to, const hazard_report *from);
