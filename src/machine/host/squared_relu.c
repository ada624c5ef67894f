/* max(x, 0)^2 (So et al. 2021). */
#include "machine/host/host.h"
#include "machine/host/row.h"

static void forward_tile(const op *o, int64_t at, int64_t n)
{
    const tensor *x = &o->operand[0].tensor, *out = &o->operand[1].tensor;
    float tile[2][TILE];
    void *place = row_at(out->data, out->type, at);
    const float *from = row_read(tile[0], row_at(x->data, x->type, at), x->type, n);
    float *y = row_write(tile[1], place, out->type);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = squared_relu_value(from[i]);
    row_close(place, out->type, y, n);
}

static void backward_tile(const op *o, int64_t at, int64_t n)
{
    const tensor *x = &o->operand[0].tensor, *d_out = &o->operand[1].tensor, *dx = &o->operand[2].tensor;
    float tile[3][TILE];
    void *place = row_at(dx->data, dx->type, at);
    const float *from = row_read(tile[0], row_at(x->data, x->type, at), x->type, n);
    const float *d = row_read(tile[1], row_at(d_out->data, d_out->type, at), d_out->type, n);
    float *y = row_write(tile[2], place, dx->type);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = squared_relu_derivative(from[i], d[i]);
    row_close(place, dx->type, y, n);
}

typedef void tile_function(const op *o, int64_t at, int64_t n);

static void over_tiles(const op *o, tile_function *f)
{
    int64_t n = tensor_elements(&o->operand[0].tensor);
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += TILE) f(o, at, smaller(TILE, n - at));
}

void host_squared_relu_forward(const op *o, void *scratch) { over_tiles(o, forward_tile); }

void host_squared_relu_backward(const op *o, void *scratch) { over_tiles(o, backward_tile); }
