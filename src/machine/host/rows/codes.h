/* Rows of FP8 values in host memory: made from floats, read as floats or BF16, transposed. */
#pragma once
#include "base/dtype.h"
#include "machine/op/args.h"
#include <stdint.h>

/* FP8 statistics of values. amax: amax_bits of the largest magnitude. */
typedef struct {
    int32_t amax;
    uint64_t count[FP8_COUNTS];
} codes_seen;
codes_seen codes_seen_by_both(codes_seen a, codes_seen b);
/* Adds s to an operation's amax and counts [FP8_COUNTS]. Either may be NULL. */
void codes_seen_add(codes_seen s, int32_t *amax, uint64_t *counts);

/* to[i] = x[i] scale in FP8. Returns the statistics. */
codes_seen codes_make(dtype type, uint8_t *restrict to, const float *restrict x, float scale, int64_t n);
/* Returns the amax only, for values that do not become FP8. */
codes_seen codes_look(const float *x, int64_t n);
/* to[i] = the FP8 value / scale. BF16 is exact if the scale is a power of two. */
void codes_read_f32(dtype type, float *restrict to, const uint8_t *restrict code, float scale, int64_t n);
void codes_read_bf16(dtype type, uint16_t *restrict to, const uint8_t *restrict code, float scale, int64_t n);
/* A matrix of FP8 values. Row r begins at data + r stride. */
typedef struct {
    uint8_t *data;
    int64_t stride, rows, columns;
} codes_matrix;
/* Returns the part from (row, column) on, with at most that many rows and columns. */
codes_matrix codes_part(codes_matrix m, int64_t row, int64_t column, int64_t rows, int64_t columns);
/* to[i][r] = from[r][i]. Zero where `to` has more columns than `from` has rows. */
void codes_transpose(codes_matrix to, codes_matrix from);
