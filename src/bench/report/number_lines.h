/* The report's lines of what came out of the timed steps: times, speed, where the time went, memory. */
#pragma once
#include "bench/facts/result.h"

/* Both are for a case with timed steps, on rank 0. The second says more, for --verbose. */
void say_numbers(const case_result *r);
void say_number_details(const case_result *r);
