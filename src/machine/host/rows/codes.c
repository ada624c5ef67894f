/* FP8 values, by rows and by blocks. */
#include "machine/host/rows/codes.h"
#include "base/fp8.h"
#include "machine/host/rows/row.h"

codes_seen codes_seen_by_both(codes_seen a, codes_seen b)
{
    if (b.amax > a.amax) a.amax = b.amax;
    for (int i = 0; i < FP8_COUNTS; i++) a.count[i] += b.count[i];
    return a;
}

void codes_seen_add(codes_seen s, int32_t *amax, uint64_t *counts)
{
    if (amax && s.amax > *amax) *amax = s.amax;
    for (int i = 0; counts && i < FP8_COUNTS; i++) counts[i] += s.count[i];
}

/* ---- rows: each loop is compiled once per format, so that the format is a constant ---- */

static inline __attribute__((always_inline)) codes_seen make(dtype type, uint8_t *restrict to, const float *restrict x,
                                                             float scale, int64_t n)
{
    float largest = fp8_largest(type);
    int32_t most = 0;
    uint32_t lost = 0, cut = 0;
#pragma omp simd reduction(max : most) reduction(+ : lost, cut)
    for (int64_t i = 0; i < n; i++) {
        float scaled = x[i] * scale;
        uint32_t code = fp8_round(type, scaled);
        int32_t bits = amax_bits(x[i]);
        most = bits > most ? bits : most;
        lost += (code & 0x7Fu) == 0 && bits != 0;
        cut += fabsf(scaled) > largest;
        to[i] = (uint8_t)code;
    }
    return (codes_seen){ most, { lost, cut, (uint64_t)n } };
}

codes_seen codes_make(dtype type, uint8_t *restrict to, const float *restrict x, float scale, int64_t n)
{
    return type == E4M3 ? make(E4M3, to, x, scale, n) : make(E5M2, to, x, scale, n);
}

codes_seen codes_look(const float *x, int64_t n)
{
    int32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        int32_t bits = amax_bits(x[i]);
        most = bits > most ? bits : most;
    }
    return (codes_seen){ .amax = most };
}

static inline __attribute__((always_inline)) void read_f32(dtype type, float *restrict to, const uint8_t *restrict code,
                                                           float scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = fp8_widen(type, code[i]) / scale;
}

void codes_read_f32(dtype type, float *restrict to, const uint8_t *restrict code, float scale, int64_t n)
{
    if (type == E4M3) read_f32(E4M3, to, code, scale, n);
    else read_f32(E5M2, to, code, scale, n);
}

static inline __attribute__((always_inline)) void read_bf16(dtype type, uint16_t *restrict to,
                                                            const uint8_t *restrict code, float unit, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] = (uint16_t)(float_bits(fp8_widen(type, code[i]) * unit) >> 16);
}

void codes_read_bf16(dtype type, uint16_t *restrict to, const uint8_t *restrict code, float scale, int64_t n)
{
    if (type == E4M3) read_bf16(E4M3, to, code, 1.0f / scale, n);
    else read_bf16(E5M2, to, code, 1.0f / scale, n);
}

/* ---- transposing ---- */

enum { BLOCK = 64, EIGHT = 8 };

/* Exchanges the bytes of b in the mask with the bytes of a that are `shift` bits higher, in eight words at once. */
static inline void exchange(uint64_t a[EIGHT], uint64_t b[EIGHT], int shift, uint64_t mask)
{
#pragma omp simd
    for (int i = 0; i < EIGHT; i++) {
        uint64_t differs = (a[i] >> shift ^ b[i]) & mask;
        b[i] ^= differs;
        a[i] ^= differs << shift;
    }
}

/* Eight rows of 64 bytes are eight squares of 8 x 8, with one row per word. Each square is transposed by exchanging
 * halves, quarters and bytes (Warren, Hacker's Delight, 7-3). Byte r of word [c][i] is then row r of column 8 i + c. */
static void transpose_squares(uint64_t x[EIGHT][EIGHT])
{
    for (int r = 0; r < 4; r++) exchange(x[r], x[r + 4], 32, 0x00000000FFFFFFFFu);
    for (int r = 0; r < 8; r += r % 4 == 1 ? 3 : 1) exchange(x[r], x[r + 2], 16, 0x0000FFFF0000FFFFu);
    for (int r = 0; r < 8; r += 2) exchange(x[r], x[r + 1], 8, 0x00FF00FF00FF00FFu);
}

codes_matrix codes_part(codes_matrix m, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    uint8_t *data = m.data + row * m.stride + column;
    return (codes_matrix){ data, m.stride, smaller(rows, m.rows - row), smaller(columns, m.columns - column) };
}

/* Moves a whole block with constant sizes, which is faster. */
static void block_load(uint8_t block[BLOCK][BLOCK], codes_matrix from)
{
    bool whole = from.rows == BLOCK && from.columns == BLOCK;
    if (!whole) memset(block, 0, BLOCK * BLOCK);
    for (int r = 0; whole && r < BLOCK; r++) memcpy(block[r], from.data + r * from.stride, BLOCK);
    for (int64_t r = 0; !whole && r < from.rows; r++)
        memcpy(block[r], from.data + r * from.stride, (size_t)from.columns);
}

static void block_store(codes_matrix to, uint8_t block[BLOCK][BLOCK])
{
    bool whole = to.rows == BLOCK && to.columns == BLOCK;
    for (int r = 0; whole && r < BLOCK; r++) memcpy(to.data + r * to.stride, block[r], BLOCK);
    for (int64_t r = 0; !whole && r < to.rows; r++) memcpy(to.data + r * to.stride, block[r], (size_t)to.columns);
}

static void block_transpose(uint8_t to[BLOCK][BLOCK], uint8_t from[BLOCK][BLOCK])
{
    for (int row = 0; row < BLOCK; row += EIGHT) {
        uint64_t squares[EIGHT][EIGHT];
        memcpy(squares, from[row], sizeof squares);
        transpose_squares(squares);
        for (int i = 0; i < EIGHT; i++)
            for (int c = 0; c < EIGHT; c++) memcpy(&to[EIGHT * i + c][row], &squares[c][i], EIGHT);
    }
}

void codes_transpose(codes_matrix to, codes_matrix from)
{
    uint8_t before[BLOCK][BLOCK], after[BLOCK][BLOCK];
    for (int64_t column = 0; column < to.rows; column += BLOCK)
        for (int64_t row = 0; row < to.columns; row += BLOCK) {
            block_load(before, codes_part(from, row, column, BLOCK, BLOCK));
            block_transpose(after, before);
            block_store(codes_part(to, column, row, BLOCK, BLOCK), after);
        }
}
