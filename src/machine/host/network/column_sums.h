/* Sums over rows: groups are cut into parts that are added in order, the same on any number of threads. */
#pragma once
#include "machine/op/op.h"

typedef struct {
    int64_t groups, parts, part, rows, columns; /* parts of a group, rows of a part, and of a group */
} column_cut;
column_cut column_cut_of(const tensor *x, const tensor *sums);
size_t column_sums_scratch(const column_cut *cut);
/* What an operation does with its rows first .. first + count: sum [columns] += what is summed. */
typedef void column_part(const op *o, int64_t first, int64_t count, float *sum);
/* The operand `sums` [groups, columns] F32 (+)= the sums of all parts. */
void column_sums_of(const op *o, const operand *sums, column_cut cut, column_part *f, void *scratch);
