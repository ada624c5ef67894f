/* Runs an operation over parts of rows. */
#include "machine/host/rows/row.h"

void run_row_parts(const op *o, const tensor *t, row_part *f)
{
    int64_t rows = tensor_row_count(t), n = tensor_columns(t);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = 0; at < n; at += TILE) f(o, row, at, smaller(TILE, n - at));
}
