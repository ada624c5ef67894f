/* A soak: the timed steps of a case continue until its minutes have passed and its `steps` are done. */
#pragma once
#include "bench/facts/result.h"

/* Returns the largest number of steps of a soak, warm-up included. The limits are the journal's entry of the case and
 * the size of a gather; it is at least the number of steps in the deck. */
int64_t soak_steps_most(const case_result *r);
/* Call it when the timed steps begin. For a soak, returns the time on this rank's clock at which they may end, and
 * takes memory for the number of steps that the fastest warm-up step predicts. Otherwise returns 0. */
double soak_begin(case_result *r);
/* Doubles the memory of the lists (up to soak_steps_most) if this step is near their end, because steps are much faster
 * than the warm-up. Returns whether it did. Call it after submitting the step. A device computes meanwhile; on the host
 * the step becomes longer, by less than a microsecond for each earlier step, because all lists but one are moved and
 * not copied. This concerns so few steps that median and p90 do not change. */
bool soak_widen(case_result *r, int64_t step);
/* Returns STOP_SOAKED if the soak may stop or its memory is full two steps after this one, because ranks submit two
 * more steps before all know; otherwise 0. until: result of soak_begin. */
int soak_reason(const case_result *r, double until, int64_t step);
/* Shortens the lists of a soak to the completed steps. */
void soak_end(case_result *r);
