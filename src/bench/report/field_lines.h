/* --verbose: prints the fields of --json, except those of steps. */
#pragma once
#include "bench/facts/result.h"

/* Prints a line for each key and field, and a table for each group of LINE_ROWS. Omits unknown values and zero rows. */
void say_fields(const case_result *r);
