/* Codes of FP8: made of values, transposed, and the scales of the next step. */
#include "base/fp8.h"
#include "machine/host/host.h"
#include "machine/host/row.h"

enum { X, CODES, TRANSPOSED, SCALE, AMAX, COUNTS };
enum { BLOCK_ROWS = 16 };

/* What a part of the values shows. */
typedef struct {
    int32_t amax;
    uint64_t count[FP8_COUNTS];
} found;

static found merged(found a, found b)
{
    if (b.amax > a.amax) a.amax = b.amax;
    for (int i = 0; i < FP8_COUNTS; i++) a.count[i] += b.count[i];
    return a;
}

static int32_t largest_of(const float *x, int64_t n)
{
    int32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        int32_t bits = amax_bits(x[i]);
        most = bits > most ? bits : most;
    }
    return most;
}

static void encode(dtype type, uint8_t *restrict to, const float *restrict x, float scale, int64_t n)
{
    if (type == E4M3)
        for (int64_t i = 0; i < n; i++) to[i] = e4m3_round(x[i] * scale);
    else
        for (int64_t i = 0; i < n; i++) to[i] = e5m2_round(x[i] * scale);
}

static void count(found *f, dtype type, const uint8_t *code, const float *x, float scale, int64_t n)
{
    float largest = fp8_largest(type);
    int64_t lost = 0, cut = 0;
    for (int64_t i = 0; i < n; i++) {
        lost += (code[i] & 0x7Fu) == 0 && x[i] != 0.0f;
        cut += fabsf(x[i] * scale) > largest;
    }
    f->count[FP8_UNDERFLOWS] += (uint64_t)lost;
    f->count[FP8_SATURATIONS] += (uint64_t)cut;
    f->count[FP8_VALUES] += (uint64_t)n;
}

/* Element (column, row) of a copy transposed in groups: row r of x is row r / groups of group r mod groups. */
static uint8_t *transposed_at(const tensor *t, int64_t row, int64_t column)
{
    int64_t groups = t->dims == 3 ? t->dim[0] : 1;
    int64_t place = t->dims == 3 ? row % groups * t->stride[0] : 0;
    return (uint8_t *)t->data + place + column * t->stride[t->dims - 2] + row / groups * t->stride[t->dims - 1];
}

/* Columns at .. at + n of rows first .. first + rows: so the columns of the copy are written in short runs. */
static found quantize_block(const op *o, int64_t first, int64_t rows, int64_t at, int64_t n)
{
    const tensor *x = &o->operand[X].tensor, *codes = &o->operand[CODES].tensor, *t = &o->operand[TRANSPOSED].tensor;
    bool encodes = tensor_present(&o->operand[SCALE].tensor);
    dtype type = tensor_present(codes) ? codes->type : t->type;
    float scale = encodes ? *(const float *)o->operand[SCALE].tensor.data : 1.0f, tile[TILE];
    uint8_t block[BLOCK_ROWS][TILE];
    found f = { 0 };
    for (int64_t r = 0; r < rows; r++) {
        const float *values = row_read(tile, tensor_row(x, first + r, at), x->type, n);
        int32_t most = largest_of(values, n);
        if (most > f.amax) f.amax = most;
        if (!encodes) continue;
        encode(type, block[r], values, scale, n);
        if (tensor_present(&o->operand[COUNTS].tensor)) count(&f, type, block[r], values, scale, n);
        if (tensor_present(codes)) memcpy(tensor_row(codes, first + r, at), block[r], (size_t)n);
    }
    for (int64_t i = 0; tensor_present(t) && i < n; i++)
        for (int64_t r = 0; r < rows; r++) *transposed_at(t, first + r, at + i) = block[r][i];
    return f;
}

/* What lies behind the last row, up to the alignment. */
static void pad(const tensor *t, int64_t rows)
{
    int64_t groups = t->dims == 3 ? t->dim[0] : 1, padded = t->dim[t->dims - 1] * groups;
    for (int64_t i = 0; i < t->dim[t->dims - 2]; i++)
        for (int64_t r = rows; r < padded; r++) *transposed_at(t, r, i) = 0;
}

void host_quantize(const op *o, void *scratch)
{
    const tensor *x = &o->operand[X].tensor, *t = &o->operand[TRANSPOSED].tensor;
    int64_t m = tensor_row_count(x), n = tensor_columns(x);
    found all = { 0 };
#pragma omp parallel
    {
        found own = { 0 };
#pragma omp for schedule(static)
        for (int64_t row = 0; row < m; row += BLOCK_ROWS)
            for (int64_t at = 0; at < n; at += TILE)
                own = merged(own, quantize_block(o, row, smaller(BLOCK_ROWS, m - row), at, smaller(TILE, n - at)));
#pragma omp critical
        all = merged(all, own);
    }
    if (tensor_present(t)) pad(t, m);
    int32_t *amax = o->operand[AMAX].tensor.data;
    uint64_t *counts = o->operand[COUNTS].tensor.data;
    if (amax && all.amax > *amax) *amax = all.amax;
    for (int i = 0; counts && i < FP8_COUNTS; i++) counts[i] += all.count[i];
}

/* One matrix, in blocks that stay in the cache. */
static void transpose_matrix(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride, int64_t m,
                             int64_t n)
{
    enum { BLOCK = 64 };
#pragma omp parallel for schedule(static)
    for (int64_t column = 0; column < n; column += BLOCK)
        for (int64_t row = 0; row < m; row += BLOCK)
            for (int64_t i = column; i < column + smaller(BLOCK, n - column); i++)
                for (int64_t r = row; r < row + smaller(BLOCK, m - row); r++)
                    to[i * to_stride + r] = from[r * from_stride + i];
}

void host_transpose(const op *o, void *scratch)
{
    const tensor *out = &o->operand[0].tensor, *x = &o->operand[1].tensor;
    int row = x->dims - 2, column = row + 1;
    int64_t m = x->dim[row], n = x->dim[column], padded = out->dim[column];
    for (int64_t g = 0; g < (row ? x->dim[0] : 1); g++) {
        uint8_t *to = (uint8_t *)out->data + (row ? g * out->stride[0] : 0);
        transpose_matrix(to, out->stride[row], (const uint8_t *)x->data + (row ? g * x->stride[0] : 0), x->stride[row],
                         m, n);
        for (int64_t i = 0; i < n; i++) memset(to + i * out->stride[row] + m, 0, (size_t)(padded - m));
    }
}

/* The calibration's amaxes are those of step -1: the history's first. */
void host_fp8_scales(const op *o, void *scratch)
{
    enum { SCALARS, AMAXES, HISTORY, SCALES };
    const double *scalars = o->operand[SCALARS].tensor.data;
    int32_t *amax = o->operand[AMAXES].tensor.data, *past = o->operand[HISTORY].tensor.data;
    float *scale = o->operand[SCALES].tensor.data;
    int64_t n = tensor_elements(&o->operand[AMAXES].tensor), at = ((int64_t)scalars[SCALAR_STEP] + 1) % FP8_HISTORY;
    for (int64_t i = 0; i < n; i++) {
        int32_t most = past[at * n + i] = amax[i];
        for (int64_t step = 0; step < FP8_HISTORY; step++)
            if (past[step * n + i] > most) most = past[step * n + i];
        float *factor = scale + i * FP8_FACTORS;
        factor[FP8_SCALE] = fp8_scale_of(i % FP8_KINDS == FP8_GRADIENT ? E5M2 : E4M3, most, o->args.fp8_scales.exact);
        factor[FP8_INVERSE] = 1.0f / factor[FP8_SCALE];
        amax[i] = 0;
    }
}
