/* Lines of the copies of a case, and of its power. */
#pragma once
#include "bench/facts/result.h"

/* Prints how the ranks are divided, and which stay idle; nothing if there is one copy. */
void say_copies(const bench_case *c);
/* Prints the slowest copy, whose mean step is the case's. */
void say_slowest_copy(const case_result *r);
/* Prints mean power and energy if they were sampled. */
void say_power(const case_result *r);
