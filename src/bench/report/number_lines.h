/* The report's lines of what came out of the timed steps: times, speed, where the time went. */
#pragma once
#include "bench/facts/result.h"

/* For a case with timed steps, on rank 0. */
void say_numbers(const case_result *r);
