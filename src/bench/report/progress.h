/* How long it will still take: an estimate that stays in the report, and on a terminal a line that the next one
 * replaces. */
#pragma once
#include "bench/facts/result.h"
#include "plan/deck/deck.h"

typedef struct {
    const deck *deck;
    double check_seconds; /* of the case at hand: its first check */
    bool terminal;
} progress;

/* Before anything else is said. */
void progress_clear(const progress *p);
/* Of a step that has ended, from 0: each says nothing where it has nothing to say. */
void progress_estimate(const progress *p, const case_result *r, int64_t step);
void progress_say(const progress *p, const case_result *r, int64_t step);
