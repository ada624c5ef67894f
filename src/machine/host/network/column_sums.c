/* Sums of columns over rows. */
#include "machine/host/network/column_sums.h"
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

enum { MAX_PARTS = 64, MIN_PART_ROWS = 16 };

row_split row_split_of(const tensor *x, const tensor *sums)
{
    row_split split = { .groups = tensor_row_count(sums), .columns = tensor_columns(x) };
    split.rows_per_group = tensor_row_count(x) / split.groups;
    split.rows_per_part = (split.rows_per_group + MAX_PARTS - 1) / MAX_PARTS;
    if (split.rows_per_part < MIN_PART_ROWS) split.rows_per_part = MIN_PART_ROWS;
    split.parts_per_group = (split.rows_per_group + split.rows_per_part - 1) / split.rows_per_part;
    return split;
}

size_t column_sums_scratch(const row_split *split)
{
    return (size_t)(split->groups * split->parts_per_group * split->columns) * sizeof(float);
}

static void add_tile(const operand *sums, row_split split, const float *partial, int64_t g, int64_t at)
{
    float sum[TILE] = { 0 }, *to = (float *)sums->tensor.data + g * split.columns + at;
    int64_t n = smaller(TILE, split.columns - at);
    for (int64_t part = g * split.parts_per_group; part < (g + 1) * split.parts_per_group; part++)
        for (int64_t i = 0; i < n; i++) sum[i] += partial[part * split.columns + at + i];
    for (int64_t i = 0; i < n; i++) to[i] = sums->access == UPDATE ? to[i] + sum[i] : sum[i];
}

static void add_parts(const operand *sums, row_split split, const float *partial)
{
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t g = 0; g < split.groups; g++)
        for (int64_t at = 0; at < split.columns; at += TILE) add_tile(sums, split, partial, g, at);
}

void column_sums_of(const op *o, const operand *sums, row_split split, column_part *f, void *scratch)
{
    float *partial = scratch;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < split.groups * split.parts_per_group; i++) {
        int64_t first = i % split.parts_per_group * split.rows_per_part, g = i / split.parts_per_group;
        float *sum = partial + i * split.columns;
        memset(sum, 0, (size_t)split.columns * sizeof *sum);
        f(o, g * split.rows_per_group + first, smaller(split.rows_per_part, split.rows_per_group - first), sum);
    }
    add_parts(sums, split, partial);
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

static row_split split_of(const op *o) { return row_split_of(&o->operand[0].tensor, &o->operand[1].tensor); }

size_t host_column_sums_scratch(const op *o)
{
    row_split split = split_of(o);
    return column_sums_scratch(&split);
}

void host_column_sums(const op *o, void *scratch) { column_sums_of(o, &o->operand[1], split_of(o), sum_rows, scratch); }
