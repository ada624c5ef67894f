/* gelu of a product plus its bias (Hendrycks & Gimpel 2016). Backward also computes the bias's gradient. */
#include "machine/host/host.h"
#include "machine/host/network/column_sums.h"
#include "machine/host/rows/row.h"

static void forward_tile(const op *o, int64_t row, int64_t at, int64_t n)
{
    const tensor *in = &o->operand[0].tensor, *bias = &o->operand[1].tensor, *out = &o->operand[2].tensor;
    float tile[3][TILE];
    const float *x = row_read(tile[0], tensor_row(in, row, at), in->type, n);
    const float *b = row_read(tile[1], row_at(bias->data, bias->type, at), bias->type, n);
    float *y = row_write(tile[2], tensor_row(out, row, at), out->type);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = gelu_value(x[i] + b[i]);
    row_close(tensor_row(out, row, at), out->type, y, n);
}

void host_gelu_forward(const op *o, void *scratch) { run_row_parts(o, &o->operand[2].tensor, forward_tile); }

static void backward_tile(const op *o, int64_t row, int64_t at, int64_t n, float *sum)
{
    const tensor *in = &o->operand[0].tensor, *bias = &o->operand[1].tensor, *d_out = &o->operand[2].tensor,
                 *dx = &o->operand[3].tensor;
    float tile[4][TILE];
    void *place = tensor_row(dx, row, at);
    const float *x = row_read(tile[0], tensor_row(in, row, at), in->type, n);
    const float *b = row_read(tile[1], row_at(bias->data, bias->type, at), bias->type, n);
    const float *d = row_read(tile[2], tensor_row(d_out, row, at), d_out->type, n);
    float *to = row_write(tile[3], place, dx->type);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        to[i] = d[i] * gelu_derivative(x[i] + b[i]);
        sum[i] += to[i];
    }
    row_close(place, dx->type, to, n);
}

static void backward_rows(const op *o, int64_t first, int64_t count, float *sum)
{
    int64_t columns = tensor_columns(&o->operand[0].tensor);
    for (int64_t row = first; row < first + count; row++)
        for (int64_t at = 0; at < columns; at += TILE) backward_tile(o, row, at, smaller(TILE, columns - at), sum + at);
}

static row_split split_of(const op *o) { return row_split_of(&o->operand[0].tensor, &o->operand[4].tensor); }

size_t host_gelu_backward_scratch(const op *o)
{
    row_split split = split_of(o);
    return column_sums_scratch(&split);
}

void host_gelu_backward(const op *o, void *scratch)
{
    column_sums_of(o, &o->operand[4], split_of(o), backward_rows, scratch);
}
