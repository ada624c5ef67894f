/* Report lines that compare a sheet's expectation with the measurement. */
#pragma once
#include "bench/facts/result.h"

void say_expected_steps(const case_result *r);
/* Writes a clause on the phase or axis that is farthest from its expectation. Returns text; it is empty if nothing was
 * expected or the step time is within its band. */
enum { DIFFERENCE_TEXT = 160 };
const char *largest_difference(const case_result *r, char text[DIFFERENCE_TEXT]);
