/* A soak: the timed steps of a case go on until its minutes have passed and it has done its steps. */
#pragma once
#include "bench/facts/result.h"

/* Most steps of a soak, warm-up and the deck's steps included, and these at least: what the journal's entry of its
 * case has room for on so many ranks, and a gather. */
int64_t soak_steps_most(const case_result *r);
/* As the timed steps of a case begin. Of a soak: returns when they may end by this rank's clock, and makes room for as
 * many as there may be, by the fastest step of the warm-up. Else returns 0. */
double soak_begin(case_result *r);
/* Where this step comes near to the end of the room: as much again, since the other steps are so much faster than those
 * of the warm-up. Was there need of it? Called between the submission of this step and of the next: a device computes
 * meanwhile, on the host this step is longer by it. That is tolerable, since the lists are moved, not copied, but for
 * that of tally_step: less than a microsecond for each step so far, on one step of as many. Neither the median nor p90
 * sees that. */
bool soak_widen(case_result *r, int64_t step);
/* Returns STOP_SOAKED if two steps after this one (two are submitted before all ranks know) the soak is long enough, or
 * its room ends; else 0. until: what soak_begin returned. */
int soak_reason(const case_result *r, double until, int64_t step);
/* Makes the lists of a soak as long as its steps. */
void soak_end(case_result *r);
