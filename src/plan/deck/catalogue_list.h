/* The catalogue in words. */
#pragma once
#include "plan/bench_case.h"

/* Prints a model in one line: sizes, kinds, experts, positions. */
void model_print(const model_shape *m);
/* Prints the catalogue (--list). */
void catalogue_print(void);
