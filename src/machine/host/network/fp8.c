/* FP8 operations: quantization, transposition, and the scales of the next step. */
#include "base/fp8.h"
#include "machine/host/host.h"
#include "machine/host/rows/fp8_rows.h"
#include "machine/host/rows/row.h"

enum { X, QUANTIZED, TRANSPOSED, SCALE, AMAX, COUNTS };
/* The transposed copy is written in runs of BLOCK_ROWS values, so that whole cache lines are written. */
enum { BLOCK_ROWS = 256, BLOCK_COLUMNS = 512 };

/* Row r of group g is row r * groups + g of x. The transposed copy has zeros from column `rows` to `padded`. */
typedef struct {
    const tensor *x, *quantized, *transposed;
    const float *scale;
    dtype type;
    int64_t groups, rows, padded, columns;
} quantization;

static quantization quantization_of(const op *o)
{
    const tensor *x = &o->operand[X].tensor, *quantized = &o->operand[QUANTIZED].tensor,
                 *t = &o->operand[TRANSPOSED].tensor;
    bool has_rows = tensor_present(quantized), has_columns = tensor_present(t);
    int64_t groups = has_columns && t->dims == 3 ? t->dim[0] : 1, rows = tensor_row_count(x) / groups;
    return (quantization){ .x = x,
                           .quantized = has_rows ? quantized : NULL,
                           .transposed = has_columns ? t : NULL,
                           .scale = o->operand[SCALE].tensor.data,
                           .type = has_rows ? quantized->type : t->type,
                           .groups = groups,
                           .rows = rows,
                           .padded = has_columns ? tensor_columns(t) : rows,
                           .columns = tensor_columns(x) };
}

static fp8_matrix group_matrix(const tensor *t, int64_t g)
{
    int row = t->dims - 2, column = row + 1;
    uint8_t *data = (uint8_t *)t->data + (row ? g * t->stride[0] : 0);
    return (fp8_matrix){ data, t->stride[row], t->dim[row], t->dim[column] };
}

/* Quantizes columns [at, at + n) of rows first .. first + BLOCK_ROWS - 1 of a group. */
static fp8_statistics quantize_block(const quantization *q, int64_t g, int64_t first, int64_t at, int64_t n)
{
    float tile[BLOCK_COLUMNS];
    uint8_t block[BLOCK_ROWS][BLOCK_COLUMNS];
    fp8_statistics all = { 0 };
    int64_t rows = smaller(BLOCK_ROWS, q->rows - first);
    for (int64_t r = 0; r < rows; r++) {
        int64_t row = (first + r) * q->groups + g;
        const float *x = row_read(tile, tensor_row(q->x, row, at), q->x->type, n);
        fp8_statistics_merge(&all, q->scale ? fp8_quantize(q->type, block[r], x, *q->scale, n) : fp8_amax_only(x, n));
        if (q->quantized) memcpy(tensor_row(q->quantized, row, at), block[r], (size_t)n);
    }
    if (q->transposed)
        fp8_matrix_transpose(fp8_matrix_part(group_matrix(q->transposed, g), at, first, n, BLOCK_ROWS),
                             (fp8_matrix){ block[0], BLOCK_COLUMNS, rows, n });
    return all;
}

void host_quantize(const op *o, void *scratch)
{
    quantization q = quantization_of(o);
    fp8_statistics all = { 0 };
#pragma omp parallel
    {
        fp8_statistics own = { 0 };
#pragma omp for collapse(3) schedule(static)
        for (int64_t g = 0; g < q.groups; g++)
            for (int64_t row = 0; row < q.padded; row += BLOCK_ROWS)
                for (int64_t at = 0; at < q.columns; at += BLOCK_COLUMNS)
                    fp8_statistics_merge(&own, quantize_block(&q, g, row, at, smaller(BLOCK_COLUMNS, q.columns - at)));
#pragma omp critical(quantize)
        fp8_statistics_merge(&all, own);
    }
    fp8_statistics_add(all, o->operand[AMAX].tensor.data, o->operand[COUNTS].tensor.data);
}

void host_transpose(const op *o, void *scratch)
{
    const tensor *out = &o->operand[0].tensor, *x = &o->operand[1].tensor;
    int64_t groups = x->dims == 3 ? x->dim[0] : 1, rows = x->dim[x->dims - 2], columns = tensor_columns(x);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t g = 0; g < groups; g++)
        for (int64_t at = 0; at < columns; at += BLOCK_COLUMNS)
            fp8_matrix_transpose(fp8_matrix_part(group_matrix(out, g), at, 0, BLOCK_COLUMNS, INT64_MAX),
                                 fp8_matrix_part(group_matrix(x, g), 0, at, rows, BLOCK_COLUMNS));
}

/* Stores the amaxes in the amax_history and replaces them by its maxima. Calibration is step -1 and has entry 0. */
static void update_history(int32_t *amax, int64_t n, int32_t *amax_history, const double *scalars)
{
    int64_t at = ((int64_t)clamp_number(scalars[SCALAR_STEP], -1.0, 0x1p53) + 1) % FP8_HISTORY;
    memcpy(amax_history + at * n, amax, (size_t)n * sizeof *amax);
    for (int64_t step = 0; step < FP8_HISTORY; step++)
        for (int64_t i = 0; i < n; i++)
            amax[i] = amax_history[step * n + i] > amax[i] ? amax_history[step * n + i] : amax[i];
}

void host_fp8_scales(const op *o, void *scratch)
{
    enum { SCALARS, AMAXES, HISTORY, SCALES };
    int32_t *amax = o->operand[AMAXES].tensor.data, *amax_history = o->operand[HISTORY].tensor.data;
    float *scale = o->operand[SCALES].tensor.data;
    fp8_scales_args a = o->args.fp8_scales;
    int64_t n = tensor_elements(&o->operand[AMAXES].tensor);
    if (amax_history) update_history(amax, n, amax_history, o->operand[SCALARS].tensor.data);
    for (int64_t i = 0; i < n; i++)
        fp8_set_factors(scale + i * FP8_FACTORS, fp8_scale_of(fp8_format(a.first + i), amax[i], a.exact));
    memset(amax, 0, (size_t)n * sizeof *amax);
}
