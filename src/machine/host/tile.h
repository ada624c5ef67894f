/* Small FP32 matrix products that stay in the first caches. */
#pragma once
#include <stdint.h>

/* Rows and columns of c that are held in registers at a time. */
enum { LANES = 16, PANEL_ROWS = 8, PANEL_VECTORS = 2 };

/* c[m, n] (+)= a[m, depth] b[depth, n]. Rows of b and c are contiguous; element (i, k) of a lies at i a_row + k
 * a_depth, so that a transposed costs nothing. m is a multiple of PANEL_ROWS, n of LANES. */
typedef struct {
    float *c;
    const float *a, *b;
    int64_t m, n, depth, c_row, a_row, a_depth, b_row;
} tile_product;

void tile_multiply(tile_product p);
void tile_accumulate(tile_product p);
