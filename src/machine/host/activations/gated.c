/* activations/: functions between two products of a layer. Here: silu(gate) * up, gelu(gate) * up (Shazeer 2020). */
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

static void forward_tile(const op *o, int64_t row, int64_t at, int64_t n)
{
    const tensor *gate_up = &o->operand[0].tensor, *out = &o->operand[1].tensor;
    float tile[3][TILE];
    const float *gate = row_read(tile[0], tensor_row(gate_up, row, at), gate_up->type, n);
    const float *up = row_read(tile[1], tensor_row(gate_up, row, tensor_columns(out) + at), gate_up->type, n);
    float *y = row_write(tile[2], tensor_row(out, row, at), out->type);
    if (o->kind == OP_GEGLU_FORWARD)
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = geglu_value(gate[i], up[i]);
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = swiglu_value(gate[i], up[i]);
    row_close(tensor_row(out, row, at), out->type, y, n);
}

typedef struct {
    const float *gate, *up, *d;
    float *d_gate, *d_up;
} gradient_row;

static void swiglu_row(gradient_row r, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        gated_gradient g = swiglu_derivative(r.gate[i], r.up[i], r.d[i]);
        r.d_gate[i] = g.gate;
        r.d_up[i] = g.up;
    }
}

static void geglu_row(gradient_row r, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        gated_gradient g = geglu_derivative(r.gate[i], r.up[i], r.d[i]);
        r.d_gate[i] = g.gate;
        r.d_up[i] = g.up;
    }
}

static void backward_tile(const op *o, int64_t row, int64_t at, int64_t n)
{
    const tensor *gate_up = &o->operand[0].tensor, *d_out = &o->operand[1].tensor, *d_gate_up = &o->operand[2].tensor;
    int64_t half = tensor_columns(d_out);
    float tile[5][TILE];
    void *gate_place = tensor_row(d_gate_up, row, at), *up_place = tensor_row(d_gate_up, row, half + at);
    const float *gate = row_read(tile[0], tensor_row(gate_up, row, at), gate_up->type, n);
    const float *up = row_read(tile[1], tensor_row(gate_up, row, half + at), gate_up->type, n);
    const float *d = row_read(tile[2], tensor_row(d_out, row, at), d_out->type, n);
    float *d_gate = row_write(tile[3], gate_place, d_gate_up->type),
          *d_up = row_write(tile[4], up_place, d_gate_up->type);
    (o->kind == OP_GEGLU_BACKWARD ? geglu_row : swiglu_row)((gradient_row){ gate, up, d, d_gate, d_up }, n);
    row_close(gate_place, d_gate_up->type, d_gate, n);
    row_close(up_place, d_gate_up->type, d_up, n);
}

void host_swiglu_forward(const op *o, void *scratch) { run_row_parts(o, &o->operand[1].tensor, forward_tile); }
void host_swiglu_backward(const op *o, void *scratch) { run_row_parts(o, &o->operand[1].tensor, backward_tile); }
void host_geglu_forward(const op *o, void *scratch) { run_row_parts(o, &o->operand[1].tensor, forward_tile); }
void host_geglu_backward(const op *o, void *scratch) { run_row_parts(o, &o->operand[1].tensor, backward_tile); }
