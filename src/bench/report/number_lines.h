/* Report lines of the timed steps: times, speed, shares of the time. */
#pragma once
#include "bench/facts/result.h"

/* Call it on rank 0, for a case that has timed steps. */
void say_numbers(const case_result *r);
