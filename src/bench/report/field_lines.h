/* --verbose: prints all fields of a case that --json has, except those of steps. */
#pragma once
#include "bench/facts/result.h"

/* Prints a line for each key and field, and a table for each group of rows. Omits unknown values and rows of zeros. */
void say_fields(const case_result *r);
