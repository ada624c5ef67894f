/* The report's lines of ranks. */
#pragma once
#include "bench/result/result.h"

/* Of a case with timed steps and several ranks, on rank 0: what they computed, what they waited for, who is slow. */
void say_ranks(const case_result *r);
