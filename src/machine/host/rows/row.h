/* rows/: how kernels walk tensors: by rows, tiles, blocks of FP8 codes. Kernels are written on floats: FP32 rows are
 * used where they lie; others pass through a tile of TILE floats, widened before and rounded once after. */
#pragma once
#include "base/numeric.h"
#include "machine/op/op.h"

enum { TILE = 1024 };

/* The element `index` of contiguous memory of that type. */
static inline void *row_at(void *data, dtype type, int64_t index)
{
    return (char *)data + index * (int64_t)dtype_bytes(type);
}

/* Row `row` of a view, all dims but the last counted as one, plus `column` elements. */
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

/* n floats to read: the row itself, or its copy in the tile. */
static inline const float *row_read(float *tile, const void *from, dtype type, int64_t n)
{
    if (type == F32) return from;
    row_load(tile, from, type, n);
    return tile;
}

/* Where to compute a row that row_close puts in place; row_update also brings its present values. */
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

/* What an operation does with n columns from `at` of a row. */
typedef void row_part(const op *o, int64_t row, int64_t at, int64_t n);
/* All rows of `all`, each in parts of at most TILE columns. */
void row_parts(const op *o, const tensor *all, row_part *f);
