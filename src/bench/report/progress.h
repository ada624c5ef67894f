/* Remaining time: an Estimate line in the report, and on a terminal a line that is replaced after each step. */
#pragma once
#include "bench/facts/sink.h"
#include "plan/deck/deck.h"

typedef struct {
    const deck *deck;
    double check_seconds; /* duration of the check of the current case */
    bool terminal;
} progress;

/* Removes the progress line. Call it before anything else is printed. */
void progress_clear(const progress *p);
/* Print the Estimate line after the warm-up and return whether they did, and the progress line on a terminal. Call both
 * after each step. */
bool progress_estimate(const progress *p, const case_result *r, const step_now *now);
void progress_say(const progress *p, const case_result *r, const step_now *now);
