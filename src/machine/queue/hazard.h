/* The hazard checker. Queues or waits must order two operations that touch the same bytes if one of them writes. It
 * keeps a vector clock for each queue and, for each byte range, the last writer and the last reader of every queue. */
#pragma once
#include "machine/op/op.h"

enum { HAZARD_QUEUES = 12, HAZARD_SENTENCES = 8 };
typedef struct hazard hazard;
typedef struct {
    uint64_t serial[HAZARD_QUEUES];
} vector_clock; /* for each queue, the serial of the last operation that comes before */
/* The hazards found. count: unordered pairs of operations in each byte range; sentence: the first different pairs. */
typedef struct {
    int64_t count;
    int sentences;
    char sentence[HAZARD_SENTENCES][512];
} hazard_report;

hazard *hazard_open(void);
void hazard_close(hazard *h);
/* Returns whether the queue's next operation already follows operation `serial` (from 1) of queue `target`. */
bool hazard_ordered(const hazard *h, int queue, int target, uint64_t serial);
/* Returns the clock after operation `serial` of queue `target`; without what it follows if 16384 others came since. */
vector_clock hazard_past(const hazard *h, int target, uint64_t serial);
/* Records that the queue's next operation follows all operations of `past`. */
void hazard_follow(hazard *h, int queue, const vector_clock *past);
/* Checks operation `serial` of the queue against all earlier operations on the same bytes, then remembers it. */
void hazard_submit(hazard *h, int queue, uint64_t serial, const op *o);
/* Records that the caller has waited for all queues: all earlier operations come before all later ones. */
void hazard_join(hazard *h);
hazard_report *hazard_read(hazard *h);
/* Adds the count of `from`, and as many of its sentences as fit. */
void hazard_report_add(hazard_report *to, const hazard_report *from);
