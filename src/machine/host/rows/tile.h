/* Small FP32 matrix products whose operands stay in the L1 and L2 caches. */
#pragma once
#include "base/lanes.h"

/* The block of c whose sums stay in registers: PANEL_ROWS rows of PANEL_VECTORS vectors. AVX has 16 registers, AVX-512
 * and NEON have 32. Results do not depend on these numbers. */
enum { PANEL_ROWS = VECTOR_FLOATS == 8 ? 4 : 8, PANEL_VECTORS = 2 };

/* c[m, n] (+)= a[m, depth] b[depth, n]. b and c are contiguous. Element (i, k) of a is at i a_row + k a_depth, so a may
 * be transposed at no cost. m and n are multiples of TILE_MULTIPLE. */
enum { TILE_MULTIPLE = 16 };
typedef struct {
    float *c;
    const float *a, *b;
    int64_t m, n, depth, a_row, a_depth;
} tile_product;

void tile_multiply(tile_product p);
void tile_accumulate(tile_product p);
