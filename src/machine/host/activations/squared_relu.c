/* max(x, 0)^2 (So et al. 2021). */
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

static void forward_tile(const op *o, int64_t row, int64_t at, int64_t n)
{
    const tensor *x = &o->operand[0].tensor, *out = &o->operand[1].tensor;
    float tile[2][TILE];
    void *place = tensor_row(out, row, at);
    const float *from = row_read(tile[0], tensor_row(x, row, at), x->type, n);
    float *y = row_write(tile[1], place, out->type);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = squared_relu_value(from[i]);
    row_close(place, out->type, y, n);
}

static void backward_tile(const op *o, int64_t row, int64_t at, int64_t n)
{
    const tensor *x = &o->operand[0].tensor, *d_out = &o->operand[1].tensor, *dx = &o->operand[2].tensor;
    float tile[3][TILE];
    void *place = tensor_row(dx, row, at);
    const float *from = row_read(tile[0], tensor_row(x, row, at), x->type, n);
    const float *d = row_read(tile[1], tensor_row(d_out, row, at), d_out->type, n);
    float *y = row_write(tile[2], place, dx->type);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = squared_relu_derivative(from[i], d[i]);
    row_close(place, dx->type, y, n);
}

void host_squared_relu_forward(const op *o, void *scratch) { run_row_parts(o, &o->operand[1].tensor, forward_tile); }
void host_squared_relu_backward(const op *o, void *scratch) { run_row_parts(o, &o->operand[2].tensor, backward_tile); }
