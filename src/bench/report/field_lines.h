/* All that --json has of a case but its steps, for people: --verbose. */
#pragma once
#include "bench/facts/result.h"

/* Prints a line for each key and field, and a table for each group of rows. Leaves out what is not known, and rows of
 * zeros. */
void say_fields(const case_result *r);
