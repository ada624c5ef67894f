/* Rows of FP8 values in host memory: quantized, dequantized to FP32 or BF16, and transposed. */
#pragma once
#include "base/dtype.h"
#include "machine/op/args.h"
#include <stdint.h>

/* FP8 statistics of values. amax: amax_bits of the largest magnitude. */
typedef struct {
    int32_t amax;
    uint64_t count[FP8_COUNTS];
} fp8_statistics;
void fp8_statistics_merge(fp8_statistics *to, fp8_statistics s);
/* Adds s to an operation's amax and counts [FP8_COUNTS]. Either may be NULL. */
void fp8_statistics_add(fp8_statistics s, int32_t *amax, uint64_t *counts);

/* to[i] = x[i] * scale in FP8. Returns the statistics. */
fp8_statistics fp8_quantize(dtype type, uint8_t *restrict to, const float *restrict x, float scale, int64_t n);
/* Returns statistics with the amax only, for values that are not quantized. */
fp8_statistics fp8_amax_only(const float *x, int64_t n);
/* to[i] = values[i] / scale. BF16 is exact if the scale is a power of two. */
void fp8_dequantize_f32(dtype type, float *restrict to, const uint8_t *restrict values, float scale, int64_t n);
void fp8_dequantize_bf16(dtype type, uint16_t *restrict to, const uint8_t *restrict values, float scale, int64_t n);
/* Row r begins at data + r * stride. */
typedef struct {
    uint8_t *data;
    int64_t stride, rows, columns;
} fp8_matrix;
/* Returns the part from (row, column) on, with at most that many rows and columns. */
fp8_matrix fp8_matrix_part(fp8_matrix m, int64_t row, int64_t column, int64_t rows, int64_t columns);
/* to[i][r] = from[r][i]. Zero where `to` has more columns than `from` has rows. */
void fp8_matrix_transpose(fp8_matrix to, fp8_matrix from);
