/* A soak: the timed steps of a case continue until its minutes have passed and its `steps` are done. */
#pragma once
#include "bench/facts/result.h"

/* Returns the largest number of steps of a soak, including warm-up: at least that of the deck, otherwise as many as fit
 * into the case's entry in the journal and into a gather. */
int64_t soak_steps_most(const case_result *r);
/* Call it when the timed steps begin. For a soak, returns the earliest end of the timed steps by this rank's clock, and
 * allocates lists for the number of steps that the fastest warm-up step predicts. Otherwise returns 0. */
double soak_begin(case_result *r);
/* Doubles the lists (up to soak_steps_most) and returns true if this step is near their end, because steps are much
 * faster than the warm-up. Call it after submitting the step. A device computes meanwhile. On the host the step takes
 * longer, by less than a microsecond for each earlier step, but this happens too seldom to change median and p90. */
bool soak_grow(case_result *r, int64_t step);
/* Returns STOP_SOAKED if the soak is long enough or its lists are full after two more steps, which ranks submit before
 * they agree; otherwise 0. end: result of soak_begin. */
int soak_reason(const case_result *r, double end, int64_t step);
/* Shortens the lists of a soak to the completed steps. */
void soak_end(case_result *r);
