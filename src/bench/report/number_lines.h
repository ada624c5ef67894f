/* The report's lines of what came out of the timed steps: times, speed, where the time went, memory. */
#pragma once
#include "bench/result/result.h"

/* Of a case with timed steps, on rank 0. */
void say_numbers(const case_result *r);
