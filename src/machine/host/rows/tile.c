/* Small products on the compiler's vector types, which run on any processor. They are in a separate file so that
 * strides stay variables: with constant strides, gcc 12 loads 16 floats of a where it needs one. */
#include "machine/host/rows/tile.h"

typedef lanes unaligned_lanes __attribute__((aligned(sizeof(float)), may_alias));

/* Computes rows i .. i + PANEL_ROWS - 1 of `vectors` (a constant) registers from column j on. b is read as volatile:
 * otherwise gcc 12 loads it again for every row, which halves the speed. */
static inline __attribute__((always_inline)) void tile_panel(const tile_product *p, int64_t i, int64_t j,
                                                             const int vectors, const int adds)
{
    const float *a = p->a + i * p->a_row, *b = p->b + j;
    float *c = p->c + i * p->n + j;
    lanes sum[PANEL_ROWS][PANEL_VECTORS], y[PANEL_VECTORS];
#pragma GCC unroll 8
    for (int r = 0; r < PANEL_ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            sum[r][v] = adds ? lanes_load(c + r * p->n + v * VECTOR_FLOATS, VECTOR_FLOATS) : (lanes){ 0 };
    for (int64_t k = 0; k < p->depth; k++, a += p->a_depth, b += p->n) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) y[v] = *(const volatile unaligned_lanes *)(b + v * VECTOR_FLOATS);
#pragma GCC unroll 8
        for (int r = 0; r < PANEL_ROWS; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] = lanes_fma(a[r * p->a_row] - (lanes){ 0 }, y[v], sum[r][v]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < PANEL_ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) lanes_store(c + r * p->n + v * VECTOR_FLOATS, sum[r][v], VECTOR_FLOATS);
}

static inline __attribute__((always_inline)) void tile_sweep(const tile_product *p, const int adds)
{
    int64_t j = 0;
    for (; j + PANEL_VECTORS * VECTOR_FLOATS <= p->n; j += PANEL_VECTORS * VECTOR_FLOATS)
        for (int64_t i = 0; i < p->m; i += PANEL_ROWS) tile_panel(p, i, j, PANEL_VECTORS, adds);
    for (; j < p->n; j += VECTOR_FLOATS)
        for (int64_t i = 0; i < p->m; i += PANEL_ROWS) tile_panel(p, i, j, 1, adds);
}

void tile_multiply(tile_product p) { tile_sweep(&p, 0); }
void tile_accumulate(tile_product p) { tile_sweep(&p, 1); }
