/* Sums over rows. Groups of rows are split into parts that are added in order, the same for any number of threads. */
#pragma once
#include "machine/op/op.h"

typedef struct {
    int64_t groups, parts_per_group, rows_per_part, rows_per_group, columns;
} row_split;
row_split row_split_of(const tensor *x, const tensor *sums);
size_t column_sums_scratch(const row_split *split);
/* Adds rows first .. first + count - 1 of an operation to sum [columns]. */
typedef void column_part(const op *o, int64_t first, int64_t count, float *sum);
/* Sets or updates sums, F32 [groups, columns]. f is called for all parts, in parallel. */
void column_sums_of(const op *o, const operand *sums, row_split split, column_part *f, void *scratch);
