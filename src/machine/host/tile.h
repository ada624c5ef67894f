/* Small FP32 matrix products that stay in the first caches. */
#pragma once
#include <stdint.h>

/* 1 if the compiler defines this macro as 1: only then its text is "1". */
#define TEXT_OF(macro) #macro
#define IS_DEFINED(macro) (sizeof TEXT_OF(macro) == sizeof "1")

/* Floats of a vector register, and the block of c whose sums stay in registers: PANEL_ROWS by PANEL_VECTORS registers.
 * AVX has 16 registers, AVX-512 and NEON have 32. gcc's __BIGGEST_ALIGNMENT__ / 4 equals LANES; clang's is 4 on every
 * x86 processor. Bits do not depend on these numbers. */
enum {
    LANES = IS_DEFINED(__AVX512F__) ? 16
            : IS_DEFINED(__AVX__)   ? 8
                                    : 4,
    PANEL_ROWS = LANES == 8 ? 4 : 8,
    PANEL_VECTORS = 2
};

/* c[m, n] (+)= a[m, depth] b[depth, n]. Rows of b and c are contiguous; element (i, k) of a lies at i a_row + k
 * a_depth, so a may be transposed at no cost. m and n are multiples of TILE_MULTIPLE. */
enum { TILE_MULTIPLE = 16 };
typedef struct {
    float *c;
    const float *a, *b;
    int64_t m, n, depth, c_row, a_row, a_depth, b_row;
} tile_product;

void tile_multiply(tile_product p);
void tile_accumulate(tile_product p);
