/* The catalogue in words. */
#pragma once
#include "plan/catalogue/catalogue.h"

/* Prints a model in one line: sizes, kinds, experts, positions. */
void model_print(const model_shape *m);
/* Prints a workload with its recipe's rows (--list NAME), and the catalogue (--list). */
void workload_print(const workload_row *w);
void catalogue_print(void);
