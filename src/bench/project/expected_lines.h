/* What a sheet expected of a case, and what was measured. */
#pragma once
#include "bench/facts/result.h"

void say_expected_steps(const case_result *r);
/* Writes the phase or axis that lies farthest from what was expected, a clause. Empty: nothing was expected, or the
 * step lies in its band. */
enum { GAP_TEXT = 160 };
const char *largest_gap(const case_result *r, char text[GAP_TEXT]);
