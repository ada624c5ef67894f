/* Cross-entropy over a vocabulary whose columns are divided over ranks. */
#include "base/lanes.h"
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

/* Returns the number of this rank's columns that are not padding. */
static int64_t valid_columns(const op *o)
{
    const cross_entropy_args *a = &o->args.cross_entropy;
    int64_t columns = tensor_columns(&o->operand[0].tensor), valid = a->valid - a->first;
    return valid < 0 ? 0 : smaller(valid, columns);
}

/* Returns the label's column on this rank, or -1. */
static int64_t own_column(const op *o, int64_t row, int64_t columns)
{
    const int32_t *label = o->operand[1].tensor.data;
    int64_t column = label[row] - o->args.cross_entropy.first;
    return column >= 0 && column < columns ? column : -1;
}

static float tile_maximum(const float *x, int64_t n)
{
    float lane[VECTOR_FLOATS], maximum = -INFINITY;
    int64_t at = 0;
    for (int i = 0; i < VECTOR_FLOATS; i++) lane[i] = -INFINITY;
    for (; at + VECTOR_FLOATS <= n; at += VECTOR_FLOATS)
#pragma omp simd
        for (int i = 0; i < VECTOR_FLOATS; i++) lane[i] = x[at + i] > lane[i] ? x[at + i] : lane[i];
    for (; at < n; at++) lane[0] = x[at] > lane[0] ? x[at] : lane[0];
    for (int i = 0; i < VECTOR_FLOATS; i++) maximum = lane[i] > maximum ? lane[i] : maximum;
    return maximum;
}

static float tile_exponentials(const float *x, int64_t n, float maximum)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += exp_shared(x[i] - maximum);
    return sum;
}

/* A row's maximum, sum of exponentials, and the label's logit. */
typedef struct {
    float maximum, sum, label;
} row_total;

/* Goes tile by tile. If the maximum rises, the earlier sum is scaled down. */
static row_total row_exponentials(const tensor *logits, int64_t row, int64_t n)
{
    float tile[TILE], maximum = -INFINITY;
    double sum = 0.0;
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        const float *x = row_read(tile, tensor_row(logits, row, at), logits->type, part);
        float before = maximum, highest = tile_maximum(x, part);
        maximum = highest > before ? highest : before;
        sum = sum * (double)exp_shared(before - maximum) + (double)tile_exponentials(x, part, maximum);
    }
    return (row_total){ .maximum = maximum, .sum = (float)sum };
}

static float one_value(const tensor *t, int64_t row, int64_t column)
{
    float x;
    row_load(&x, tensor_row(t, row, column), t->type, 1);
    return x;
}

static void partial(const op *o)
{
    const tensor *logits = &o->operand[0].tensor;
    float *out = o->operand[2].tensor.data; /* [rows, 3] */
    int64_t rows = tensor_row_count(logits), n = valid_columns(o);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        int64_t own = own_column(o, row, n);
        row_total t = row_exponentials(logits, row, n);
        out[3 * row] = t.maximum;
        out[3 * row + 1] = t.sum;
        out[3 * row + 2] = own < 0 ? 0.0f : one_value(logits, row, own);
    }
}

static row_total combine_ranks(const tensor *partials, int64_t rows, int64_t row)
{
    int64_t ranks = tensor_elements(partials) / (3 * rows);
    const float *part = (const float *)partials->data + 3 * row;
    row_total t = { -INFINITY, 0.0f, 0.0f };
    for (int64_t r = 0; r < ranks; r++) t.maximum = part[3 * rows * r] > t.maximum ? part[3 * rows * r] : t.maximum;
    for (int64_t r = 0; r < ranks; r++, part += 3 * rows) {
        t.sum += part[1] * exp_shared(part[0] - t.maximum);
        t.label += part[2];
    }
    return t;
}

/* Replaces logits by (softmax - onehot) scale, and columns from n on by 0. */
static void row_gradient(const op *o, int64_t row, int64_t n, row_total t)
{
    const tensor *logits = &o->operand[0].tensor;
    int64_t own = own_column(o, row, n), columns = tensor_columns(logits);
    float tile[TILE];
    logit_scale s = logit_scale_of(t.sum, o->args.cross_entropy.gradient_scale);
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        void *place = tensor_row(logits, row, at);
        float *x = row_update(tile, place, logits->type, part);
        float label = own >= at && own < at + part ? x[own - at] : 0.0f;
#pragma omp simd
        for (int64_t i = 0; i < part; i++) x[i] = logit_gradient(s, exp_shared(x[i] - t.maximum));
        if (own >= at && own < at + part) x[own - at] = label_gradient(s, exp_shared(label - t.maximum));
        row_close(place, logits->type, x, part);
    }
    memset(tensor_row(logits, row, n), 0, (size_t)(columns - n) * dtype_bytes(logits->type));
}

/* loss [b] = sum over positions, in order. */
static void sum_losses(const tensor *loss, const double *row_loss, int64_t rows)
{
    int64_t b = loss->dim[0];
    double *out = loss->data;
    for (int64_t i = 0; i < b; i++) {
        double sum = 0.0;
        for (int64_t row = i; row < rows; row += b) sum += row_loss[row];
        out[i * loss->stride[0]] = sum;
    }
}

static void finish(const op *o, double *row_loss)
{
    int64_t rows = tensor_row_count(&o->operand[0].tensor), n = valid_columns(o);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        row_total t = combine_ranks(&o->operand[2].tensor, rows, row);
        row_loss[row] = log((double)t.sum) + (double)t.maximum - (double)t.label;
        row_gradient(o, row, n, t);
    }
    sum_losses(&o->operand[3].tensor, row_loss, rows);
}

size_t host_cross_entropy_scratch(const op *o)
{
    return (size_t)tensor_elements(&o->operand[1].tensor) * sizeof(double);
}

void host_cross_entropy(const op *o, void *scratch)
{
    if (o->args.cross_entropy.part == CROSS_ENTROPY_PARTIAL) partial(o);
    else finish(o, scratch);
}
