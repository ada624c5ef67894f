/* Sums of columns over rows. */
#include "machine/host/network/column_sums.h"
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

enum { LARGEST_PARTS = 64, SMALLEST_PART = 16 };

column_cut column_cut_of(const tensor *x, const tensor *sums)
{
    column_cut cut = { .groups = tensor_row_count(sums), .columns = tensor_columns(x) };
    cut.rows = tensor_row_count(x) / cut.groups;
    cut.part = (cut.rows + LARGEST_PARTS - 1) / LARGEST_PARTS;
    if (cut.part < SMALLEST_PART) cut.part = SMALLEST_PART;
    cut.parts = (cut.rows + cut.part - 1) / cut.part;
    return cut;
}

size_t column_sums_scratch(const column_cut *cut)
{
    return (size_t)(cut->groups * cut->parts * cut->columns) * sizeof(float);
}

static void add_tile(const operand *sums, column_cut cut, const float *partial, int64_t g, int64_t at)
{
    float sum[TILE] = { 0 }, *to = (float *)sums->tensor.data + g * cut.columns + at;
    int64_t n = smaller(TILE, cut.columns - at);
    for (int64_t part = g * cut.parts; part < (g + 1) * cut.parts; part++)
        for (int64_t i = 0; i < n; i++) sum[i] += partial[part * cut.columns + at + i];
    for (int64_t i = 0; i < n; i++) to[i] = sums->access == UPDATE ? to[i] + sum[i] : sum[i];
}

static void add_parts(const operand *sums, column_cut cut, const float *partial)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t g = 0; g < cut.groups; g++)
        for (int64_t at = 0; at < cut.columns; at += TILE) add_tile(sums, cut, partial, g, at);
}

void column_sums_of(const op *o, const operand *sums, column_cut cut, column_part *f, void *scratch)
{
    float *partial = scratch;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < cut.groups * cut.parts; i++) {
        int64_t first = i % cut.parts * cut.part;
        memset(partial + i * cut.columns, 0, (size_t)cut.columns * sizeof *partial);
        f(o, i / cut.parts * cut.rows + first, smaller(cut.part, cut.rows - first), partial + i * cut.columns);
    }
    add_parts(sums, cut, partial);
}

static void sum_rows(const op *o, int64_t first, int64_t count, float *sum)
{
    const tensor *x = &o->operand[0].tensor;
    float tile[TILE];
    for (int64_t row = first; row < first + count; row++)
        for (int64_t at = 0; at < tensor_columns(x); at += TILE) {
            int64_t n = smaller(TILE, tensor_columns(x) - at);
            const float *values = row_read(tile, tensor_row(x, row, at), x->type, n);
            for (int64_t i = 0; i < n; i++) sum[at + i] += values[i];
        }
}

static column_cut cut_of(const op *o) { return column_cut_of(&o->operand[0].tensor, &o->operand[1].tensor); }

size_t host_column_sums_scratch(const op *o)
{
    column_cut cut = cut_of(o);
    return column_sums_scratch(&cut);
}

void host_column_sums(const op *o, void *scratch) { column_sums_of(o, &o->operand[1], cut_of(o), sum_rows, scratch); }
