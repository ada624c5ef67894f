/* Report lines of the timed steps: times, speed, shares of the time. */
#pragma once
#include "bench/facts/result.h"

/* Prints them. The case has timed steps. Call it on rank 0. */
void say_numbers(const case_result *r);
