/* Printed form of the catalogue. */
#pragma once
#include "plan/catalogue/catalogue.h"

/* Prints a model in one line: sizes, kinds, experts, positions. */
void model_print(const model_shape *m);
/* Prints a workload with its recipe's rows (--list NAME). catalogue_print prints all of them (--list). */
void workload_print(const workload_row *w);
void catalogue_print(void);
