/* rows/: access to tensors by rows, tiles, and blocks of FP8 values. Kernels compute in float: FP32 rows are used in
 * place; others are widened into a tile of TILE floats and rounded once afterwards. */
#pragma once
#include "base/numeric.h"
#include "machine/op/op.h"

enum { TILE = 1024 };

/* Returns the address of element `index` of contiguous memory of that type. */
static inline void *row_at(void *data, dtype type, int64_t index)
{
    return (char *)data + index * (int64_t)dtype_bytes(type);
}

/* Returns the address of row `row`, column `column` of a view. All dims but the last are counted as one. */
static inline void *tensor_row(const tensor *t, int64_t row, int64_t column)
{
    int64_t offset = column;
    for (int i = t->dims - 2; i > 0; i--) {
        offset += row % t->dim[i] * t->stride[i];
        row /= t->dim[i];
    }
    return row_at(t->data, t->type, offset + (t->dims > 1 ? row * t->stride[0] : 0));
}

static inline int64_t tensor_columns(const tensor *t) { return t->dim[t->dims - 1]; }
static inline int64_t tensor_row_count(const tensor *t)
{
    return t->dims == 1 ? 1 : tensor_elements(t) / tensor_columns(t);
}

static inline void row_load(float *restrict to, const void *restrict from, dtype type, int64_t n)
{
    const uint16_t *bf16 = from;
    if (type == F32) memcpy(to, from, (size_t)n * sizeof(float));
    else
        for (int64_t i = 0; i < n; i++) to[i] = bf16_widen(bf16[i]);
}

static inline void row_store(void *restrict to, dtype type, const float *restrict from, int64_t n)
{
    uint16_t *bf16 = to;
    if (type == F32) memcpy(to, from, (size_t)n * sizeof(float));
    else
        for (int64_t i = 0; i < n; i++) bf16[i] = bf16_round(from[i]);
}

/* Returns n floats to read: the row itself, or its copy in the tile. */
static inline const float *row_read(float *tile, const void *from, dtype type, int64_t n)
{
    if (type == F32) return from;
    row_load(tile, from, type, n);
    return tile;
}

/* Return memory for computing a row: the row itself or the tile, which row_close stores. row_update loads the row. */
static inline float *row_write(float *tile, void *to, dtype type) { return type == F32 ? to : tile; }
static inline float *row_update(float *tile, void *to, dtype type, int64_t n)
{
    if (type == F32) return to;
    row_load(tile, to, type, n);
    return tile;
}
static inline void row_close(void *to, dtype type, const float *from, int64_t n)
{
    if (type != F32) row_store(to, type, from, n);
}

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Processes columns [at, at + n) of a row. */
typedef void row_part(const op *o, int64_t row, int64_t at, int64_t n);
/* Calls f for all rows of t, in parts of at most TILE columns, in parallel. */
void run_row_parts(const op *o, const tensor *t, row_part *f);
