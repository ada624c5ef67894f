/* Rows of FP8 codes in host memory: made of floats, read as floats or BF16, transposed. */
#pragma once
#include "base/dtype.h"
#include "machine/op/args.h"
#include <stdint.h>

/* What values showed while they became codes; amax: amax_bits of the largest. */
typedef struct {
    int32_t amax;
    uint64_t count[FP8_COUNTS];
} codes_seen;
codes_seen codes_seen_by_both(codes_seen a, codes_seen b);
/* amax, counts [FP8_COUNTS]: of an operation; NULL: not asked for. */
void codes_seen_add(codes_seen s, int32_t *amax, uint64_t *counts);

/* to[i] = the code of x[i] scale. */
codes_seen codes_make(dtype type, uint8_t *restrict to, const float *restrict x, float scale, int64_t n);
/* What does not become codes has no counts. */
codes_seen codes_look(const float *x, int64_t n);
/* to[i] = the code's value / scale; to BF16 it is exact, for scales that are powers of two. */
void codes_read_f32(dtype type, float *restrict to, const uint8_t *restrict code, float scale, int64_t n);
void codes_read_bf16(dtype type, uint16_t *restrict to, const uint8_t *restrict code, float scale, int64_t n);
/* Codes in rows: row r begins at data + r stride. */
typedef struct {
    uint8_t *data;
    int64_t stride, rows, columns;
} codes_matrix;
/* What lies from (row, column) on, at most so many rows and columns. */
codes_matrix codes_part(codes_matrix m, int64_t row, int64_t column, int64_t rows, int64_t columns);
/* to[i][r] = from[r][i]; zero where `to` has more columns than there are rows. */
void codes_transpose(codes_matrix to, codes_matrix from);
