/* Sums over rows. Groups of rows are cut into parts that are added in order, the same for any number of threads. */
#pragma once
#include "machine/op/op.h"

typedef struct {
    int64_t groups, parts, part, rows, columns; /* parts of a group; rows of a part; rows of a group */
} column_cut;
column_cut column_cut_of(const tensor *x, const tensor *sums);
size_t column_sums_scratch(const column_cut *cut);
/* Adds rows first .. first + count - 1 of an operation to sum [columns]. */
typedef void column_part(const op *o, int64_t first, int64_t count, float *sum);
/* Sets or updates the operand sums, F32 [groups, columns], by the sums of all parts. */
void column_sums_of(const op *o, const operand *sums, column_cut cut, column_part *f, void *scratch);
