/* Rows and matrices of FP8 values. */
#include "machine/host/rows/fp8_rows.h"
#include "base/fp8.h"
#include "machine/host/rows/row.h"

void fp8_statistics_merge(fp8_statistics *to, fp8_statistics s)
{
    if (s.amax > to->amax) to->amax = s.amax;
    for (int i = 0; i < FP8_COUNTS; i++) to->count[i] += s.count[i];
}

void fp8_statistics_add(fp8_statistics s, int32_t *amax, uint64_t *counts)
{
    if (amax && s.amax > *amax) *amax = s.amax;
    for (int i = 0; counts && i < FP8_COUNTS; i++) counts[i] += s.count[i];
}

/* ---- rows: loops are compiled once per format, so that the format is a constant ---- */

static inline __attribute__((always_inline)) fp8_statistics quantize(dtype type, uint8_t *restrict to,
                                                                     const float *restrict x, float scale, int64_t n)
{
    float largest = fp8_largest(type);
    int32_t amax = 0;
    uint32_t underflows = 0, saturations = 0;
#pragma omp simd reduction(max : amax) reduction(+ : underflows, saturations)
    for (int64_t i = 0; i < n; i++) {
        float scaled = x[i] * scale;
        uint32_t value = fp8_round(type, scaled);
        int32_t bits = amax_bits(x[i]);
        amax = bits > amax ? bits : amax;
        underflows += (value & 0x7Fu) == 0 && bits != 0;
        saturations += fabsf(scaled) > largest;
        to[i] = (uint8_t)value;
    }
    return (fp8_statistics){ amax, { underflows, saturations, (uint64_t)n } };
}

fp8_statistics fp8_quantize(dtype type, uint8_t *restrict to, const float *restrict x, float scale, int64_t n)
{
    return type == E4M3 ? quantize(E4M3, to, x, scale, n) : quantize(E5M2, to, x, scale, n);
}

fp8_statistics fp8_amax_only(const float *x, int64_t n)
{
    int32_t amax = 0;
#pragma omp simd reduction(max : amax)
    for (int64_t i = 0; i < n; i++) {
        int32_t bits = amax_bits(x[i]);
        amax = bits > amax ? bits : amax;
    }
    return (fp8_statistics){ .amax = amax };
}

static inline __attribute__((always_inline)) void dequantize_f32(dtype type, float *restrict to,
                                                                 const uint8_t *restrict values, float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = fp8_widen(type, values[i]) / scale;
}

void fp8_dequantize_f32(dtype type, float *restrict to, const uint8_t *restrict values, float scale, int64_t n)
{
    if (type == E4M3) dequantize_f32(E4M3, to, values, scale, n);
    else dequantize_f32(E5M2, to, values, scale, n);
}

static inline __attribute__((always_inline)) void
dequantize_bf16(dtype type, uint16_t *restrict to, const uint8_t *restrict values, float inverse_scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = (uint16_t)(float_bits(fp8_widen(type, values[i]) * inverse_scale) >> 16);
}

void fp8_dequantize_bf16(dtype type, uint16_t *restrict to, const uint8_t *restrict values, float scale, int64_t n)
{
    if (type == E4M3) dequantize_bf16(E4M3, to, values, 1.0f / scale, n);
    else dequantize_bf16(E5M2, to, values, 1.0f / scale, n);
}

/* ---- transposing ---- */

enum { BLOCK = 64, SQUARE = 8 };

/* Exchanges the bytes of b in the mask with the bytes of a that are `shift` bits higher, in eight words at once. */
static inline void exchange(uint64_t a[SQUARE], uint64_t b[SQUARE], int shift, uint64_t mask)
{
#pragma omp simd
    for (int i = 0; i < SQUARE; i++) {
        uint64_t differs = (a[i] >> shift ^ b[i]) & mask;
        b[i] ^= differs;
        a[i] ^= differs << shift;
    }
}

/* Eight rows of 64 bytes are eight squares of 8 x 8, with one row per word. Each square is transposed by exchanging
 * halves, quarters and bytes (Warren, Hacker's Delight, 7-3). Byte r of word [c][i] is then row r of column 8 i + c. */
static void transpose_squares(uint64_t x[SQUARE][SQUARE])
{
    for (int r = 0; r < 4; r++) exchange(x[r], x[r + 4], 32, 0x00000000FFFFFFFFu);
    for (int r = 0; r < 8; r += r % 4 == 1 ? 3 : 1) exchange(x[r], x[r + 2], 16, 0x0000FFFF0000FFFFu);
    for (int r = 0; r < 8; r += 2) exchange(x[r], x[r + 1], 8, 0x00FF00FF00FF00FFu);
}

fp8_matrix fp8_matrix_part(fp8_matrix m, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    uint8_t *data = m.data + row * m.stride + column;
    return (fp8_matrix){ data, m.stride, smaller(rows, m.rows - row), smaller(columns, m.columns - column) };
}

/* Moves a whole block with constant sizes, which is faster. */
static void block_load(uint8_t block[BLOCK][BLOCK], fp8_matrix from)
{
    bool whole = from.rows == BLOCK && from.columns == BLOCK;
    if (!whole) memset(block, 0, BLOCK * BLOCK);
    for (int r = 0; whole && r < BLOCK; r++) memcpy(block[r], from.data + r * from.stride, BLOCK);
    for (int64_t r = 0; !whole && r < from.rows; r++)
        memcpy(block[r], from.data + r * from.stride, (size_t)from.columns);
}

static void block_store(fp8_matrix to, uint8_t block[BLOCK][BLOCK])
{
    bool whole = to.rows == BLOCK && to.columns == BLOCK;
    for (int r = 0; whole && r < BLOCK; r++) memcpy(to.data + r * to.stride, block[r], BLOCK);
    for (int64_t r = 0; !whole && r < to.rows; r++) memcpy(to.data + r * to.stride, block[r], (size_t)to.columns);
}

static void block_transpose(uint8_t to[BLOCK][BLOCK], uint8_t from[BLOCK][BLOCK])
{
    for (int row = 0; row < BLOCK; row += SQUARE) {
        uint64_t squares[SQUARE][SQUARE];
        memcpy(squares, from[row], sizeof squares);
        transpose_squares(squares);
        for (int i = 0; i < SQUARE; i++)
            for (int c = 0; c < SQUARE; c++) memcpy(&to[SQUARE * i + c][row], &squares[c][i], SQUARE);
    }
}

void fp8_matrix_transpose(fp8_matrix to, fp8_matrix from)
{
    uint8_t before[BLOCK][BLOCK], after[BLOCK][BLOCK];
    for (int64_t column = 0; column < to.rows; column += BLOCK)
        for (int64_t row = 0; row < to.columns; row += BLOCK) {
            block_load(before, fp8_matrix_part(from, row, column, BLOCK, BLOCK));
            block_transpose(after, before);
            block_store(fp8_matrix_part(to, column, row, BLOCK, BLOCK), after);
        }
}
