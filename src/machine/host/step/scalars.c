/* Learning rate, bias corrections, gradient norm and clip factor; sums of elements with random signs. */
#include "machine/host/host.h"
#include "machine/host/rows/row.h"

static double learning_rate(const step_begin_args *a, int64_t step)
{
    const double pi = 3.14159265358979323846;
    if (step < a->warmup && a->from_zero) return a->maximum * (double)step / (double)a->warmup;
    if (step < a->warmup) return a->maximum * (double)(step + 1) / (double)(a->warmup + 1);
    if (a->constant) return a->maximum;
    int64_t last = a->total - 1;
    double decayed = last > a->warmup ? (double)(step - a->warmup) / (double)(last - a->warmup) : 0.0;
    return a->minimum + (a->maximum - a->minimum) / 2 * (1 + cos(pi * (decayed < 1 ? decayed : 1)));
}

void host_step_begin(const op *o, void *scratch)
{
    double *scalar = o->operand[0].tensor.data;
    const step_begin_args *a = &o->args.step_begin;
    scalar[SCALAR_STEP] += 1;
    scalar[SCALAR_LEARNING_RATE] = learning_rate(a, (int64_t)clamp_number(scalar[SCALAR_STEP], -1.0, 0x1p53));
    scalar[SCALAR_CORRECTION1] = 1 / (1 - pow((double)a->beta1, scalar[SCALAR_STEP] + 1));
    scalar[SCALAR_CORRECTION2] = 1 / (1 - pow((double)a->beta2, scalar[SCALAR_STEP] + 1));
}

/* Squares are rounded to integers in units of 2^-80. A tile whose values are all below TILE_LIMIT uses two 64-bit sums:
 * adding SPLIT rounds a square to a multiple of 2^48, and adding UNIT rounds the rest to an integer. The bits of the
 * results, less those of SPLIT and UNIT, are these integers. In other tiles, squares are added one at a time. */
static const float TILE_LIMIT = 256.0f, VALUE_LIMIT = 16777216.0f; /* 2^8, 2^24 */
static const double SPLIT = 0x1.8p100, UNIT = 0x1.8p52, HALF_UNIT = 0x1p40;

typedef unsigned __int128 uint128;

static uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float largest(const float *x, int64_t n)
{
    uint32_t bits = 0;
#pragma omp simd reduction(max : bits)
    for (int64_t i = 0; i < n; i++) {
        uint32_t magnitude = float_bits(x[i]) & 0x7FFFFFFFu;
        bits = magnitude > bits ? magnitude : bits;
    }
    return float_from_bits(bits);
}

static uint128 small_squares(const float *x, int64_t n)
{
    uint64_t high = 0, low = 0, count = (uint64_t)n;
#pragma omp simd reduction(+ : high, low)
    for (int64_t i = 0; i < n; i++) {
        double root = (double)x[i] * HALF_UNIT, square = root * root, split = square + SPLIT;
        high += double_bits(split);
        low += double_bits(square - (split - SPLIT) + UNIT);
    }
    high -= count * double_bits(SPLIT);
    low -= count * double_bits(UNIT);
    return ((uint128)high << 48) + (uint128)(__int128)(int64_t)low;
}

static void add_to_sum(uint64_t *sum, uint128 value)
{
    for (int i = 0; i < EXACT_SUM_NOT_FINITE; i++) sum[i] += (uint32_t)(value >> (32 * i));
}

static void large_squares(const float *x, int64_t n, uint64_t *sum)
{
    for (int64_t i = 0; i < n; i++) {
        double root = (double)x[i] * HALF_UNIT;
        if (fabsf(x[i]) < VALUE_LIMIT) add_to_sum(sum, (uint128)rint(root * root));
        else sum[isfinite(x[i]) ? EXACT_SUM_OUTGROWN : EXACT_SUM_NOT_FINITE] = 1;
    }
}

static void square_tile(const tensor *x, int64_t at, int64_t n, uint64_t *sum)
{
    float tile[TILE];
    const float *values = row_read(tile, row_at(x->data, x->type, at), x->type, n);
    if (largest(values, n) < TILE_LIMIT) add_to_sum(sum, small_squares(values, n));
    else large_squares(values, n, sum);
}

/* Makes all words but the top one smaller than 2^32. Flags become 0 or 1. */
static void carry(uint64_t *sum)
{
    for (int i = 0; i < EXACT_SUM_NOT_FINITE - 1; i++) {
        sum[i + 1] += sum[i] >> 32;
        sum[i] &= 0xFFFFFFFFu;
    }
    for (int i = EXACT_SUM_NOT_FINITE; i < EXACT_SUM_WORDS; i++) sum[i] = sum[i] != 0;
}

void host_square_sum(const op *o, void *scratch)
{
    const tensor *x = &o->operand[0].tensor;
    uint64_t *to = o->operand[1].tensor.data, sum[EXACT_SUM_WORDS] = { 0 };
    int64_t n = tensor_elements(x);
#pragma omp parallel for schedule(static) reduction(+ : sum)
    for (int64_t at = 0; at < n; at += TILE) square_tile(x, at, smaller(TILE, n - at), sum);
    for (int i = 0; i < EXACT_SUM_WORDS; i++) to[i] += sum[i];
    carry(to);
}

/* Returns the square root of the integer in units of 2^-80; NaN if an input was not finite, infinity above 128 bits. */
static double norm_of(const uint64_t *squares)
{
    uint64_t sum[EXACT_SUM_WORDS];
    memcpy(sum, squares, sizeof sum);
    carry(sum);
    if (sum[EXACT_SUM_NOT_FINITE]) return NAN;
    if (sum[EXACT_SUM_OUTGROWN] || sum[EXACT_SUM_NOT_FINITE - 1] >> 32) return INFINITY;
    double value = 0.0;
    for (int i = EXACT_SUM_NOT_FINITE - 1; i >= 0; i--) value = value * 0x1p32 + (double)sum[i];
    return sqrt(value * 0x1p-80);
}

void host_step_clip(const op *o, void *scratch)
{
    const double *loss = o->operand[1].tensor.data;
    double *scalar = o->operand[2].tensor.data, clip = o->args.step_clip.clip;
    double norm = norm_of(o->operand[0].tensor.data), factor = clip / (norm + 1e-6);
    scalar[SCALAR_NORM] = norm;
    scalar[SCALAR_CLIP] = clip > 0 && isfinite(norm) && factor < 1 ? factor : 1;
    scalar[SCALAR_LOSS] = *loss / o->args.step_clip.tokens;
}

/* ---- signed sums ---- */

/* Adds n elements, a multiple of SIGN_RUN. run: the number of the first run of signs. */
static void add_tile(slice_totals *t, const float *restrict x, int64_t n, uint64_t key, int64_t run)
{
    float with_sign[TILE];
    double sum = 0.0, squares = 0.0;
    for (int64_t at = 0; at < n; at += SIGN_RUN) {
        uint32_t signs = signs_of(key, run++);
#pragma omp simd
        for (int i = 0; i < SIGN_RUN; i++) with_sign[at + i] = signed_value(x[at + i], signs, i);
    }
#pragma omp simd reduction(+ : sum, squares)
    for (int64_t i = 0; i < n; i++) {
        sum += (double)with_sign[i];
        squares += (double)x[i] * (double)x[i];
    }
    t->of[SLICE_SIGNED] += sum;
    t->of[SLICE_SQUARES] += squares;
}

static void add_elements(slice_totals *t, const op *o, uint64_t key, int64_t first, int64_t end)
{
    const tensor *x = &o->operand[0].tensor;
    for (int64_t at = first; at < end; at += TILE) {
        float tile[TILE];
        int64_t n = smaller(TILE, end - at);
        add_tile(t, row_read(tile, row_at(x->data, x->type, at), x->type, n), n, key,
                 (o->args.signed_sums.place + at) / SIGN_RUN);
    }
}

/* One thread adds up a slice, so that the order does not depend on the number of threads. */
void host_signed_sums(const op *o, void *scratch)
{
    const signed_sums_args *a = &o->args.signed_sums;
    const double *scalars = o->operand[1].tensor.data;
    double *to = o->operand[2].tensor.data;
    int64_t part = tensor_elements(&o->operand[0].tensor) / a->owners;
    uint64_t key = signs_key(a->key, scalars[SCALAR_STEP]);
#pragma omp parallel for schedule(static) if (part > 4 * TILE)
    for (int slice = 0; slice < SUM_SLICES; slice++) {
        slice_totals t = { { 0.0 } };
        for (int64_t from = 0; from < a->owners * part; from += part)
            add_elements(&t, o, key, from + slice_begin(part, slice), from + slice_begin(part, slice + 1));
        memcpy(&to[slice * SLICE_TOTALS], &t, sizeof t);
    }
}
