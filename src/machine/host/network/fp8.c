/* FP8 operations: quantization, transposition, and the scales of the next step. */
#include "base/fp8.h"
#include "machine/host/host.h"
#include "machine/host/rows/codes.h"
#include "machine/host/rows/row.h"

enum { X, CODES, TRANSPOSED, SCALE, AMAX, COUNTS };
/* Columns of the transposed copy are written in runs of BLOCK_ROWS, so that whole cache lines are written. */
enum { BLOCK_ROWS = 256, BLOCK_COLUMNS = 512 };

/* The values of group g are rows r groups + g of x, r < rows. The transposed copy adds zeros up to `padded`. */
typedef struct {
    const tensor *x, *codes, *transposed;
    const float *scale;
    dtype type;
    int64_t groups, rows, padded, columns;
} quantization;

static quantization quantization_of(const op *o)
{
    const tensor *x = &o->operand[X].tensor, *codes = &o->operand[CODES].tensor, *t = &o->operand[TRANSPOSED].tensor;
    bool by_rows = tensor_present(codes), by_columns = tensor_present(t);
    int64_t groups = by_columns && t->dims == 3 ? t->dim[0] : 1, rows = tensor_row_count(x) / groups;
    return (quantization){ .x = x,
                           .codes = by_rows ? codes : NULL,
                           .transposed = by_columns ? t : NULL,
                           .scale = o->operand[SCALE].tensor.data,
                           .type = by_rows ? codes->type : t->type,
                           .groups = groups,
                           .rows = rows,
                           .padded = by_columns ? tensor_columns(t) : rows,
                           .columns = tensor_columns(x) };
}

/* Returns one group's matrix. */
static codes_matrix matrix_of(const tensor *t, int64_t g)
{
    int row = t->dims - 2, column = row + 1;
    uint8_t *data = (uint8_t *)t->data + (row ? g * t->stride[0] : 0);
    return (codes_matrix){ data, t->stride[row], t->dim[row], t->dim[column] };
}

/* Quantizes columns [at, at + n) of rows first .. first + BLOCK_ROWS - 1 of a group. */
static codes_seen quantize_block(const quantization *q, int64_t g, int64_t first, int64_t at, int64_t n)
{
    float tile[BLOCK_COLUMNS];
    uint8_t block[BLOCK_ROWS][BLOCK_COLUMNS];
    codes_seen seen = { 0 };
    int64_t rows = smaller(BLOCK_ROWS, q->rows - first);
    for (int64_t r = 0; r < rows; r++) {
        int64_t row = (first + r) * q->groups + g;
        const float *x = row_read(tile, tensor_row(q->x, row, at), q->x->type, n);
        seen = codes_seen_by_both(seen, q->scale ? codes_make(q->type, block[r], x, *q->scale, n) : codes_look(x, n));
        if (q->codes) memcpy(tensor_row(q->codes, row, at), block[r], (size_t)n);
    }
    if (q->transposed)
        codes_transpose(codes_part(matrix_of(q->transposed, g), at, first, n, BLOCK_ROWS),
                        (codes_matrix){ block[0], BLOCK_COLUMNS, rows, n });
    return seen;
}

void host_quantize(const op *o, void *scratch)
{
    quantization q = quantization_of(o);
    codes_seen all = { 0 };
#pragma omp parallel
    {
        codes_seen own = { 0 };
#pragma omp for collapse(3) schedule(static)
        for (int64_t g = 0; g < q.groups; g++)
            for (int64_t row = 0; row < q.padded; row += BLOCK_ROWS)
                for (int64_t at = 0; at < q.columns; at += BLOCK_COLUMNS)
                    own =
                        codes_seen_by_both(own, quantize_block(&q, g, row, at, smaller(BLOCK_COLUMNS, q.columns - at)));
#pragma omp critical(quantize)
        all = codes_seen_by_both(all, own);
    }
    codes_seen_add(all, o->operand[AMAX].tensor.data, o->operand[COUNTS].tensor.data);
}

void host_transpose(const op *o, void *scratch)
{
    const tensor *out = &o->operand[0].tensor, *x = &o->operand[1].tensor;
    int64_t groups = x->dims == 3 ? x->dim[0] : 1, rows = x->dim[x->dims - 2], columns = tensor_columns(x);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t g = 0; g < groups; g++)
        for (int64_t at = 0; at < columns; at += BLOCK_COLUMNS)
            codes_transpose(codes_part(matrix_of(out, g), at, 0, BLOCK_COLUMNS, INT64_MAX),
                            codes_part(matrix_of(x, g), 0, at, rows, BLOCK_COLUMNS));
}

/* Stores the amaxes in the history and replaces them by its maxima. Calibration is step -1 and has the first entry. */
static void keep_amaxes(int32_t *amax, int64_t n, int32_t *past, const double *scalars)
{
    int64_t at = ((int64_t)clamp_number(scalars[SCALAR_STEP], -1.0, 0x1p53) + 1) % FP8_HISTORY;
    memcpy(past + at * n, amax, (size_t)n * sizeof *amax);
    for (int64_t step = 0; step < FP8_HISTORY; step++)
        for (int64_t i = 0; i < n; i++) amax[i] = past[step * n + i] > amax[i] ? past[step * n + i] : amax[i];
}

void host_fp8_scales(const op *o, void *scratch)
{
    enum { SCALARS, AMAXES, HISTORY, SCALES };
    int32_t *amax = o->operand[AMAXES].tensor.data, *past = o->operand[HISTORY].tensor.data;
    float *scale = o->operand[SCALES].tensor.data;
    fp8_scales_args by = o->args.fp8_scales;
    int64_t n = tensor_elements(&o->operand[AMAXES].tensor);
    if (past) keep_amaxes(amax, n, past, o->operand[SCALARS].tensor.data);
    for (int64_t i = 0; i < n; i++)
        fp8_set_factors(scale + i * FP8_FACTORS, fp8_scale_of(fp8_format(by.first + i), amax[i], by.exact));
    memset(amax, 0, (size_t)n * sizeof *amax);
}
