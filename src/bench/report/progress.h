/* How long it will still take: an estimate that stays in the report, and on a terminal a line that the next one
 * replaces. */
#pragma once
#include "bench/facts/sink.h"
#include "plan/deck/deck.h"

typedef struct {
    const deck *deck;
    double check_seconds; /* of the case at hand: its first check */
    bool terminal;
} progress;

/* Before anything else is said. */
void progress_clear(const progress *p);
/* After a step: each says nothing where it has nothing to say. */
void progress_estimate(const progress *p, const case_result *r, const step_now *now);
void progress_say(const progress *p, const case_result *r, const step_now *now);
