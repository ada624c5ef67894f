/* RMSNorm (Zhang & Sennrich 2019) and LayerNorm (Ba et al. 2016), optionally of a sum x + delta. */
#include "base/lanes.h"
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

/* Gain gradients are summed in blocks of rows, then over blocks in order: the same for any number of threads. */
enum { MAX_BLOCKS = 64, MIN_BLOCK_ROWS = 16, COLUMNS = 128 };

static float sum_of_squares(const float *x, int64_t n)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

/* Returns a tile of x, or of sum = x + delta after it is rounded and stored. */
static const float *summed_tile(const op *o, int64_t row, int64_t at, int64_t n, float tile[3][TILE])
{
    const tensor *x = &o->operand[0].tensor, *delta = &o->operand[1].tensor, *sum = &o->operand[3].tensor;
    const float *values = row_read(tile[0], tensor_row(x, row, at), x->type, n);
    if (!tensor_present(delta)) return values;
    const float *added = row_read(tile[1], tensor_row(delta, row, at), delta->type, n);
    for (int64_t i = 0; i < n; i++) tile[2][i] = values[i] + added[i];
    row_store(tensor_row(sum, row, at), sum->type, tile[2], n);
    row_load(tile[2], tensor_row(sum, row, at), sum->type, n);
    return tile[2];
}

typedef struct {
    float mean, rstd;
} row_statistics;

static float row_mean_square(const op *o, int64_t row, int64_t n)
{
    float tile[3][TILE];
    double total = 0.0;
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        total += sum_of_squares(summed_tile(o, row, at, part, tile), part);
    }
    return (float)(total / (double)n);
}

typedef struct {
    double mean, squares; /* squares: sum of squared differences from the mean */
} moments;

static moments tile_moments(const float *x, int64_t n)
{
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i];
    float mean = sum / (float)n;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; i++) squares += (x[i] - mean) * (x[i] - mean);
    return (moments){ (double)mean, (double)squares };
}

/* Combines the moments of tiles (Chan, Golub and LeVeque 1979), which avoids cancellation. */
static moments row_moments(const op *o, int64_t row, int64_t n)
{
    float tile[3][TILE];
    moments all = { 0.0, 0.0 };
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        moments more = tile_moments(summed_tile(o, row, at, part, tile), part);
        double difference = more.mean - all.mean, share = (double)part / (double)(at + part);
        all.mean += difference * share;
        all.squares += more.squares + difference * difference * share * (double)at;
    }
    return all;
}

static void scale_row(const op *o, int64_t row, int64_t n, row_statistics s)
{
    const tensor *from = &o->operand[tensor_present(&o->operand[3].tensor) ? 3 : 0].tensor;
    const tensor *gain = &o->operand[2].tensor, *out = &o->operand[4].tensor, *bias = &o->operand[6].tensor;
    float tile[4][TILE];
    for (int64_t at = 0; at < n; at += TILE) {
        int64_t part = smaller(TILE, n - at);
        const float *x = row_read(tile[0], tensor_row(from, row, at), from->type, part);
        const float *g = row_read(tile[1], row_at(gain->data, gain->type, at), gain->type, part);
        const float *b = NULL;
        if (tensor_present(bias)) b = row_read(tile[3], row_at(bias->data, bias->type, at), bias->type, part);
        float *y = row_write(tile[2], tensor_row(out, row, at), out->type);
        if (b)
            for (int64_t i = 0; i < part; i++) y[i] = fmaf((x[i] - s.mean) * s.rstd, 1.0f + g[i], b[i]);
        else
            for (int64_t i = 0; i < part; i++) y[i] = x[i] * s.rstd * g[i];
        row_close(tensor_row(out, row, at), out->type, y, part);
    }
}

/* The mean is 0 for RMSNorm. */
static row_statistics statistics_of(const op *o, int64_t row, int64_t n, bool centred)
{
    float epsilon = o->args.norm.epsilon;
    if (!centred) return (row_statistics){ 0.0f, 1.0f / sqrtf(row_mean_square(o, row, n) + epsilon) };
    moments m = row_moments(o, row, n);
    return (row_statistics){ (float)m.mean, 1.0f / sqrtf((float)(m.squares / (double)n) + epsilon) };
}

void host_norm_forward(const op *o, void *scratch)
{
    const tensor *x = &o->operand[0].tensor;
    bool centred = tensor_present(&o->operand[7].tensor);
    float *rstd = o->operand[5].tensor.data, *mean = o->operand[7].tensor.data;
    int64_t rows = tensor_row_count(x), n = tensor_columns(x);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        row_statistics s = statistics_of(o, row, n, centred);
        rstd[row] = s.rstd;
        if (centred) mean[row] = s.mean;
        scale_row(o, row, n, s);
    }
}

/* With unit = x rstd and d_unit = d_out gain: dx = rstd (d_unit - unit mean(d_unit unit)), d gain = sum over rows of
 * d_out unit. LayerNorm uses x - mean for x and 1 + gain for gain, and dx is rstd mean(d_unit) less; d bias = sum of
 * d_out. */
typedef struct {
    const tensor *d_out, *x, *gain, *dx;
    const float *rstd, *mean; /* mean NULL: RMSNorm */
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
                        .mean = tensor_present(&x[6].tensor) ? x[6].tensor.data : NULL,
                        .dx_access = x[4].access };
    c.rows = tensor_row_count(c.x);
    c.n = tensor_columns(c.x);
    c.block = (c.rows + MAX_BLOCKS - 1) / MAX_BLOCKS;
    if (c.block < MIN_BLOCK_ROWS) c.block = MIN_BLOCK_ROWS;
    return c;
}

/* Functions that take `centred` are compiled once for each norm. */
typedef struct {
    const float *d, *x, *gain;
    float mean, rstd;
    int64_t n;
} row_tile;

static row_tile tile_of(const backward_call *c, int64_t row, int64_t at, int64_t n, float tile[3][TILE])
{
    return (row_tile){ row_read(tile[0], tensor_row(c->d_out, row, at), c->d_out->type, n),
                       row_read(tile[1], tensor_row(c->x, row, at), c->x->type, n),
                       row_read(tile[2], row_at(c->gain->data, c->gain->type, at), c->gain->type, n),
                       c->mean ? c->mean[row] : 0.0f,
                       c->rstd[row],
                       n };
}

typedef struct {
    float products, d_units; /* sums of d_unit (x - mean) and of d_unit */
} tile_sums;

typedef struct {
    lanes products, d_units;
    float *gain, *bias; /* sums of the gradients of gain and bias */
} lane_sums;

/* Adds n numbers from `at` on to the sums. n is a whole vector or 1. */
static inline void sum_lanes(const row_tile *r, bool centred, int64_t at, int64_t n, lane_sums *sums)
{
    lanes d = lanes_load(r->d + at, n), x = lanes_load(r->x + at, n), gain = lanes_load(r->gain + at, n), zero = { 0 };
    lanes product = d * (centred ? x - r->mean : x);
    if (centred) gain = 1.0f + gain;
    lanes_store(sums->gain + at, lanes_fma(product, r->rstd + zero, lanes_load(sums->gain + at, n)), n);
    sums->products = lanes_fma(product, gain, sums->products);
    if (centred) lanes_store(sums->bias + at, lanes_load(sums->bias + at, n) + d, n);
    if (centred) sums->d_units = lanes_fma(d, gain, sums->d_units);
}

/* Adds the tile's contributions to the gradients of gain and bias. */
static inline tile_sums sum_tile(row_tile r, bool centred, float *gain_sum, float *bias_sum)
{
    lane_sums sums = { .gain = gain_sum, .bias = bias_sum };
    int64_t at = 0;
    for (; at + VECTOR_FLOATS <= r.n; at += VECTOR_FLOATS) sum_lanes(&r, centred, at, VECTOR_FLOATS, &sums);
    for (; at < r.n; at++) sum_lanes(&r, centred, at, 1, &sums);
    return (tile_sums){ lanes_sum(sums.products), lanes_sum(sums.d_units) };
}

typedef struct {
    float slope, constant; /* mean(d_unit unit) rstd^2, mean(d_unit) rstd */
} projection;

static projection row_projection(const backward_call *c, int64_t row, float *gain_sum, float *bias_sum)
{
    float tile[3][TILE], rstd = c->rstd[row];
    double products = 0.0, d_units = 0.0;
    for (int64_t at = 0; at < c->n; at += TILE) {
        int64_t part = smaller(TILE, c->n - at);
        row_tile r = tile_of(c, row, at, part, tile);
        tile_sums sums =
            c->mean ? sum_tile(r, true, gain_sum + at, bias_sum + at) : sum_tile(r, false, gain_sum + at, NULL);
        products += sums.products;
        d_units += sums.d_units;
    }
    return (projection){ (float)(products * rstd / (double)c->n) * rstd * rstd,
                         (float)(d_units / (double)c->n) * rstd };
}

static inline void differentiate_tile(row_tile r, bool centred, projection p, bool adds, float *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < r.n; i++) {
        float x = centred ? r.x[i] - r.mean : r.x[i], gain = centred ? 1.0f + r.gain[i] : r.gain[i];
        float gradient = fmaf(r.d[i] * gain, r.rstd, -(x * p.slope)) - p.constant;
        dx[i] = adds ? dx[i] + gradient : gradient;
    }
}

static void row_backward(const backward_call *c, int64_t row, projection p)
{
    float tile[4][TILE];
    for (int64_t at = 0; at < c->n; at += TILE) {
        int64_t part = smaller(TILE, c->n - at);
        void *place = tensor_row(c->dx, row, at);
        row_tile r = tile_of(c, row, at, part, tile);
        bool adds = c->dx_access == UPDATE;
        float *dx = adds ? row_update(tile[3], place, c->dx->type, part) : row_write(tile[3], place, c->dx->type);
        if (c->mean) differentiate_tile(r, true, p, adds, dx);
        else differentiate_tile(r, false, p, adds, dx);
        row_close(place, c->dx->type, dx, part);
    }
}

static int64_t blocks_of(const backward_call *c) { return (c->rows + c->block - 1) / c->block; }

/* sums: [blocks, n] for the gain, then the same for the bias. */
static void block_backward(const backward_call *c, int64_t block, float *sums)
{
    int64_t first = block * c->block;
    float *gain_sum = sums + block * c->n, *bias_sum = c->mean ? gain_sum + blocks_of(c) * c->n : NULL;
    memset(gain_sum, 0, (size_t)c->n * sizeof *gain_sum);
    if (bias_sum) memset(bias_sum, 0, (size_t)c->n * sizeof *bias_sum);
    for (int64_t row = first; row < smaller(first + c->block, c->rows); row++)
        row_backward(c, row, row_projection(c, row, gain_sum, bias_sum));
}

static void sum_blocks(const operand *gradient, const float *of_block, int64_t blocks, int64_t n)
{
    float *to = gradient->tensor.data;
    if (gradient->access != UPDATE) memset(to, 0, (size_t)n * sizeof *to);
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += COLUMNS)
        for (int64_t block = 0; block < blocks; block++) {
            const float *from = of_block + block * n;
#pragma omp simd
            for (int64_t i = at; i < smaller(at + COLUMNS, n); i++) to[i] += from[i];
        }
}

size_t host_norm_backward_scratch(const op *o)
{
    backward_call c = call_of(o);
    int gradients = tensor_present(&o->operand[7].tensor) ? 2 : 1;
    return (size_t)(gradients * blocks_of(&c) * c.n) * sizeof(float);
}

void host_norm_backward(const op *o, void *scratch)
{
    backward_call c = call_of(o);
    float *sums = scratch;
    int64_t blocks = blocks_of(&c);
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++) block_backward(&c, block, sums);
    sum_blocks(&o->operand[5], sums, blocks, c.n);
    if (c.mean) sum_blocks(&o->operand[7], sums + blocks * c.n, blocks, c.n);
}
