/* Runs an operation over parts of rows. */
#include "machine/host/rows/row.h"

void row_parts(const op *o, const tensor *all, row_part *f)
{
    int64_t rows = tensor_row_count(all), n = tensor_columns(all);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = 0; at < n; at += TILE) f(o, row, at, smaller(TILE, n - at));
}
