/* Small FP32 matrix products that stay in the first caches: four rows by up to 64 columns of c at a time are held in
 * registers. Vectors are of the compiler's own kind, so any processor runs them. */
#pragma once
#include <math.h>
#include <stdint.h>

enum { LANES = 16, PANEL_ROWS = 4, PANEL_VECTORS = 4 };
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

/* c[m, n] (+)= a[m, depth] b[depth, n]. Rows of b and c are contiguous; element (i, k) of a lies at i a_row + k a_depth,
 * so that a transposed costs nothing. m is a multiple of PANEL_ROWS, n of LANES. */
typedef struct {
    float *c; const float *a, *b;
    int64_t m, n, depth, c_row, a_row, a_depth, b_row;
} tile_product;

/* sum += x y */
static inline __attribute__((always_inline)) void lanes_fma(lanes *sum, float x, const float *y)
{
    lanes z = *sum, t = *(const lanes *)y;
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) z[l] = fmaf(x, t[l], z[l]);
    *sum = z;
}

/* Rows i .. i + 3, `vectors` (a constant) times 16 columns from j. */
static inline __attribute__((always_inline)) void tile_panel(const tile_product *p, int64_t i, int64_t j, const int vectors, const int adds)
{
    const float *a = p->a + i * p->a_row, *b = p->b + j;
    float *c = p->c + i * p->c_row + j;
    lanes sum[PANEL_ROWS][PANEL_VECTORS];
#pragma GCC unroll 4
    for (int r = 0; r < PANEL_ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[r][v] = adds ? *(const lanes *)(c + r * p->c_row + v * LANES) : (lanes){ 0 };
    for (int64_t k = 0; k < p->depth; k++)
#pragma GCC unroll 4
        for (int r = 0; r < PANEL_ROWS; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                lanes_fma(&sum[r][v], a[r * p->a_row + k * p->a_depth], b + k * p->b_row + v * LANES);
#pragma GCC unroll 4
    for (int r = 0; r < PANEL_ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) *(lanes *)(c + r * p->c_row + v * LANES) = sum[r][v];
}

static inline __attribute__((always_inline)) void tile_sweep(const tile_product *p, const int adds)
{
    int64_t j = 0;
    for (; j + PANEL_VECTORS * LANES <= p->n; j += PANEL_VECTORS * LANES)
        for (int64_t i = 0; i < p->m; i += PANEL_ROWS) tile_panel(p, i, j, PANEL_VECTORS, adds);
    for (; j < p->n; j += LANES)
        for (int64_t i = 0; i < p->m; i += PANEL_ROWS) tile_panel(p, i, j, 1, adds);
}

static inline void tile_multiply(tile_product p) { tile_sweep(&p, 0); }
static inline void tile_accumulate(tile_product p) { tile_sweep(&p, 1); }
