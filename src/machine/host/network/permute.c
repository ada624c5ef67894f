/* Copies rows of tokens to the experts' buffers, and back as weighted sums. */
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

static const int32_t *integers(const tensor *t) { return t->data; }

/* Returns whether source, the index of a choice, belongs to a token. It does not in unused rows and after faults. */
static bool is_token(const tensor *x, int32_t source) { return source >= 0 && source / CHOICES < tensor_row_count(x); }
static const void *token_row(const tensor *x, int32_t source, int64_t at)
{
    return tensor_row(x, source / CHOICES, at);
}

void host_permute(const op *o, void *scratch)
{
    const tensor *out = &o->operand[0].tensor, *x = &o->operand[1].tensor, *source = &o->operand[2].tensor;
    size_t bytes = (size_t)tensor_columns(out) * dtype_bytes(out->type);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < tensor_row_count(out); row++) {
        int32_t from = integers(source)[row];
        if (is_token(x, from)) memcpy(tensor_row(out, row, 0), token_row(x, from, 0), bytes);
        else memset(tensor_row(out, row, 0), 0, bytes);
    }
}

/* y[i] += w x[i] */
static void add_row(float *y, float w, const float *x, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(w, x[i], y[i]);
}

static void sum_tile(const op *o, int64_t token, int64_t at, int64_t n)
{
    const tensor *out = &o->operand[0].tensor, *y = &o->operand[1].tensor;
    const float *weights = o->operand[2].tensor.data;
    float sum[TILE] = { 0 }, tile[TILE];
    for (int k = 0; k < CHOICES; k++) {
        int32_t place = integers(&o->operand[3].tensor)[CHOICES * token + k];
        if (place < 0 || place >= tensor_row_count(y)) continue;
        add_row(sum, weights ? weights[CHOICES * token + k] : 1.0f,
                row_read(tile, tensor_row(y, place, at), y->type, n), n);
    }
    row_store(tensor_row(out, token, at), out->type, sum, n);
}

void host_unpermute_forward(const op *o, void *scratch) { run_row_parts(o, &o->operand[0].tensor, sum_tile); }

/* Sets columns [at, at + n) of row r of d_y to weight * d_out. Returns their part of the product d_out . y. */
static float backward_tile(const op *o, int64_t r, int64_t at, int64_t n)
{
    const tensor *y = &o->operand[1].tensor, *d_y = &o->operand[5].tensor;
    int32_t source = integers(&o->operand[4].tensor)[r];
    float tile[3][TILE], dot = 0.0f, weight = ((const float *)o->operand[2].tensor.data)[source];
    const float *d = row_read(tile[0], token_row(&o->operand[0].tensor, source, at), y->type, n);
    const float *value = row_read(tile[1], tensor_row(y, r, at), y->type, n);
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < n; i++) {
        tile[2][i] = weight * d[i];
        dot += d[i] * value[i];
    }
    row_store(tensor_row(d_y, r, at), d_y->type, tile[2], n);
    return dot;
}

static void backward_row(const op *o, int64_t r)
{
    const tensor *d_y = &o->operand[5].tensor;
    int32_t source = integers(&o->operand[4].tensor)[r];
    int64_t columns = tensor_columns(d_y);
    float dot = 0.0f;
    if (!is_token(&o->operand[0].tensor, source)) {
        memset(tensor_row(d_y, r, 0), 0, (size_t)columns * dtype_bytes(d_y->type));
        return;
    }
    for (int64_t at = 0; at < columns; at += TILE) dot += backward_tile(o, r, at, smaller(TILE, columns - at));
    ((float *)o->operand[6].tensor.data)[source] = dot;
}

void host_unpermute_backward(const op *o, void *scratch)
{
    const tensor *place = &o->operand[3].tensor, *source = &o->operand[4].tensor;
    float *d_weights = o->operand[6].tensor.data;
    for (int64_t i = 0; i < tensor_elements(place); i++)
        if (integers(place)[i] < 0) d_weights[i] = 0.0f;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < tensor_elements(source); r++) backward_row(o, r);
}
