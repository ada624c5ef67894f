/* The report's lines of ranks. */
#pragma once
#include "bench/facts/result.h"

/* Both are for a case with timed steps, on rank 0, and print nothing where there is one rank. The first says which rank
 * is slow, the second what the ranks computed and waited for. */
void say_ranks(const case_result *r);
void say_rank_details(const case_result *r);
