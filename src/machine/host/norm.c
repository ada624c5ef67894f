/* RMS norm with an optional addition before it (Zhang & Sennrich 2019). */
#include "machine/host/host.h"
#include "machine/host/row.h"

/* Gain gradients are summed over blocks of rows first, then over blocks in order: the same on any number of threads. */
enum { LARGEST_BLOCKS = 64, SMALLEST_BLOCK = 16 };

static float sum_of_squares(const float *x, int64_t n)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

/* One tile of sum = x + delta; the sum of its squares, as rounded. */
static float add_tile(void *sum, dtype type, const float *x, const float *delta, int64_t n)
{
    float tile[TILE];
    for (int64_t i = 0; i < n; i++) tile[i] = x[i] + delta[i];
    row_store(sum, type, tile, n);
    row_load(tile, sum, type, n);
    return sum_of_squares(tile, n);
}

static float row_mean_square(const op *o, int64_t row, int64_t n)
{
    const tensor *x = &o->operand[0].tensor, *delta = &o->operand[1].tensor, *sum = &o->operand[3].tensor;
    float tile[2][TILE];
    double total = 0.0;
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        const float *values = row_read(tile[0], tensor_row(x, row, at), x->type, part);
        if (!tensor_present(delta)) {
            total += sum_of_squares(values, part);
            continue;
        }
        const float *added = row_read(tile[1], tensor_row(delta, row, at), delta->type, part);
        total += add_tile(tensor_row(sum, row, at), sum->type, values, added, part);
    }
    return (float)(total / (double)n);
}

static void scale_row(const op *o, int64_t row, int64_t n, float rstd)
{
    const tensor *from = &o->operand[tensor_present(&o->operand[3].tensor) ? 3 : 0].tensor;
    const tensor *gain = &o->operand[2].tensor, *out = &o->operand[4].tensor;
    float tile[3][TILE];
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        const float *x = row_read(tile[0], tensor_row(from, row, at), from->type, part);
        const float *g = row_read(tile[1], row_at(gain->data, gain->type, at), gain->type, part);
        float *y = row_write(tile[2], tensor_row(out, row, at), out->type);
        for (int64_t i = 0; i < part; i++) y[i] = x[i] * rstd * g[i];
        row_close(tensor_row(out, row, at), out->type, y, part);
    }
}

void host_norm_forward(const op *o, void *scratch)
{
    const tensor *x = &o->operand[0].tensor;
    float *rstd = o->operand[5].tensor.data;
    int64_t rows = tensor_row_count(x), n = tensor_columns(x);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        rstd[row] = 1.0f / sqrtf(row_mean_square(o, row, n) + o->args.norm.epsilon);
        scale_row(o, row, n, rstd[row]);
    }
}

/* With unit = x rstd and d_unit = d_out gain: dx = rstd (d_unit - unit mean(d_unit unit)), d gain = sum over rows of
 * d_out unit. */
typedef struct {
    const tensor *d_out, *x, *gain, *dx;
    const float *rstd;
    access_mode dx_access;
    int64_t rows, n, block;
} backward_call;

static backward_call call_of(const op *o)
{
    const operand *x = o->operand;
    backward_call c = { .d_out = &x[0].tensor,
                        .x = &x[1].tensor,
                        .gain = &x[3].tensor,
                        .dx = &x[4].tensor,
                        .rstd = x[2].tensor.data,
                        .dx_access = x[4].access };
    c.rows = tensor_row_count(c.x);
    c.n = tensor_columns(c.x);
    c.block = (c.rows + LARGEST_BLOCKS - 1) / LARGEST_BLOCKS;
    if (c.block < SMALLEST_BLOCK) c.block = SMALLEST_BLOCK;
    return c;
}

/* The row's part of the gain's gradient is added to `gain_sum`; returns mean(d_unit unit) rstd^2. */
static float row_projection(const backward_call *c, int64_t row, float *gain_sum)
{
    float tile[3][TILE], rstd = c->rstd[row];
    double total = 0.0;
    for (int64_t at = 0; at < c->n; at += TILE) {
        int64_t part = smaller(TILE, c->n - at);
        const float *d = row_read(tile[0], tensor_row(c->d_out, row, at), c->d_out->type, part);
        const float *x = row_read(tile[1], tensor_row(c->x, row, at), c->x->type, part);
        const float *g = row_read(tile[2], row_at(c->gain->data, c->gain->type, at), c->gain->type, part);
        float *into = gain_sum + at, sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < part; i++) {
            float product = d[i] * x[i];
            into[i] = fmaf(product, rstd, into[i]);
            sum = fmaf(product, g[i], sum);
        }
        total += sum;
    }
    return (float)(total * rstd / (double)c->n) * rstd * rstd;
}

static void row_backward(const backward_call *c, int64_t row, float projection)
{
    float tile[4][TILE], rstd = c->rstd[row];
    for (int64_t at = 0; at < c->n; at += TILE) {
        int64_t part = smaller(TILE, c->n - at);
        void *place = tensor_row(c->dx, row, at);
        const float *d = row_read(tile[0], tensor_row(c->d_out, row, at), c->d_out->type, part);
        const float *x = row_read(tile[1], tensor_row(c->x, row, at), c->x->type, part);
        const float *g = row_read(tile[2], row_at(c->gain->data, c->gain->type, at), c->gain->type, part);
        bool adds = c->dx_access == UPDATE;
        float *dx = adds ? row_update(tile[3], place, c->dx->type, part) : row_write(tile[3], place, c->dx->type);
        if (adds)
            for (int64_t i = 0; i < part; i++) dx[i] += fmaf(d[i] * g[i], rstd, -(x[i] * projection));
        else
            for (int64_t i = 0; i < part; i++) dx[i] = fmaf(d[i] * g[i], rstd, -(x[i] * projection));
        row_close(place, c->dx->type, dx, part);
    }
}

static void block_backward(const backward_call *c, int64_t first, float *gain_sum)
{
    memset(gain_sum, 0, (size_t)c->n * sizeof *gain_sum);
    for (int64_t row = first; row < smaller(first + c->block, c->rows); row++)
        row_backward(c, row, row_projection(c, row, gain_sum));
}

static void sum_blocks(const operand *gain_gradient, const float *gain_sum, int64_t blocks, int64_t n)
{
    float *to = gain_gradient->tensor.data;
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float sum = gain_gradient->access == UPDATE ? to[i] : 0.0f;
        for (int64_t block = 0; block < blocks; block++) sum += gain_sum[block * n + i];
        to[i] = sum;
    }
}

static int64_t blocks_of(const backward_call *c) { return (c->rows + c->block - 1) / c->block; }

size_t host_norm_backward_scratch(const op *o)
{
    backward_call c = call_of(o);
    return (size_t)(blocks_of(&c) * c.n) * sizeof(float);
}

void host_norm_backward(const op *o, void *scratch)
{
    backward_call c = call_of(o);
    float *gain_sum = scratch;
    int64_t blocks = blocks_of(&c);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) block_backward(&c, block * c.block, gain_sum + block * c.n);
    sum_blocks(&o->operand[5], gain_sum, blocks, c.n);
}
