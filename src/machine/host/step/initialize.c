/* Normal random numbers for one rank's part of a logical matrix (src/DEFINITIONS.md). */
#include "base/random.h"
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

static void normal_tile(float *to, int64_t n, const initialize_args *a, uint64_t index)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = normal_element(a->seed, a->key, index + (uint64_t)i, a->scale);
}

/* Sets columns [at, at + n) of a row. Elements outside the logical matrix become 0. */
static void initialize_tile(const op *o, int64_t row, int64_t at, int64_t n)
{
    const tensor *out = &o->operand[0].tensor;
    const initialize_args *a = &o->args.initialize;
    int64_t logical_row = a->first_row + row, logical_column = a->first_column + at;
    int64_t inside = logical_row < a->rows ? smaller(n, a->columns - logical_column) : 0;
    float tile[TILE] = { 0 };
    normal_tile(tile, inside, a, (uint64_t)(logical_row * a->columns + logical_column));
    row_store(tensor_row(out, row, at), out->type, tile, n);
}

void host_initialize(const op *o, void *scratch) { run_row_parts(o, &o->operand[0].tensor, initialize_tile); }
