/* Limits of the difference between an operation and the host, for each kind. Equal bit for bit, without a limit here,
 * are whole operations of the host itself and kinds that only move or count elements or compute each one by
 * base/numeric.h. The others add the same terms in another order: n terms of size x then differ by about sqrt(n) x
 * 2^-24. The limit is 2 sqrt(n) + 16 times 2^-24 of the tensor's largest value. One rounding on each side adds 2 half
 * units in the last place. */
#include "machine/op/limits.h"
#include <math.h>

/* Half a unit in the last place, relative to the smallest number with that unit. */
static const double F32_HALF_UNIT = 0x1p-24, BF16_HALF_UNIT = 0x1p-8, F64_UNITS = 16 * 0x1p-52;

static double columns_of(const tensor *t) { return (double)t->dim[t->dims - 1]; }
static double elements_of(const tensor *t) { return (double)tensor_elements(t); }

/* terms: of the longest sum in an output element. other_errors: those not from the order of adding. */
static shadow_limit limit_of_sums(const op *o, int which, double terms, double other_errors)
{
    bool bf16 = o->operand[which].tensor.type == BF16;
    return (shadow_limit){ .roundings = 2 * (bf16 ? BF16_HALF_UNIT : F32_HALF_UNIT),
                           .absolute = (2 * sqrt(terms) + 16) * F32_HALF_UNIT + other_errors };
}

/* Tensor cores truncate the FP32 sum of each 16 products: errors of half a unit each, of one sign, which add up. */
enum { TENSOR_CORE_DEPTH = 16 };

/* Tensor cores of Hopper add 32 FP8 products and the previous sum at a time. Each is aligned with the largest and
 * truncated to 14 bits: a mean error of half of 2^-13 of the largest (DeepSeek-V3 2024, 3.3.2; gpu.md). Errors of the
 * sum have one sign and add up. Errors of n products have different signs and grow like sqrt(n), bounded here by 2
 * sqrt(n). With fast accumulation, used if both factors are E4M3, the whole sum has 14 bits. Otherwise only sums of 128
 * products have 14 bits; they are added in FP32, and the relative error of the whole is no larger than theirs. Assumed,
 * not measured: kernels of cuBLASLt keep 14 bits and add 128 products, they truncate towards zero, and no product is
 * far larger than the largest sum of the tensor. The host and emulated GPUs add in FP32. If a scale is not a power of
 * two, the host rounds each value once more; these errors have random signs and fit in the 16. */
enum { FP8_DEPTH = 32, FP8_PROMOTED = 128 };
static const double FP8_SUM_HALF_UNIT = 0x1p-14;

static double truncation_error(double terms, bool fast)
{
    double truncated = fast ? terms : fmin(terms, FP8_PROMOTED);
    return (truncated / FP8_DEPTH + 2 * sqrt(truncated)) * FP8_SUM_HALF_UNIT;
}

const tensor *product_bias(const op *o)
{
    static const tensor none;
    enum { BIAS = 3 };
    return o->kind == OP_MATMUL ? &o->operand[BIAS].tensor : &none;
}

/* Most kernels of cuBLASLt for Hopper round a product to BF16 before they add a BF16 matrix or a bias (seen on an H100,
 * 13.1): an error of half a unit of the product. */
static double product_rounding(const op *o, const op_home *home)
{
    bool adds = o->operand[0].access == UPDATE || tensor_present(product_bias(o));
    return home->cuda && adds && o->operand[0].tensor.type == BF16 ? BF16_HALF_UNIT : 0.0;
}

shadow_limit limit_of_product(const op *o, const op_home *home, int which)
{
    const tensor *a = &o->operand[1].tensor, *b = &o->operand[2].tensor;
    double terms = columns_of(a), chain = a->type == BF16 ? terms / TENSOR_CORE_DEPTH : 0.0;
    bool fp8 = dtype_bytes(a->type) == 1, fast = a->type == E4M3 && b->type == E4M3;
    shadow_limit limit =
        limit_of_sums(o, which, terms, fp8 && home->cuda ? truncation_error(terms, fast) : chain * F32_HALF_UNIT);
    limit.product = product_rounding(o, home);
    return limit;
}

/* Only sums of probabilities over positions may differ, so only statistics have a limit. */
shadow_limit limit_of_router(const op *o, const op_home *home, int which)
{
    enum { STATISTICS = 6 };
    const tensor *logits = &o->operand[0].tensor;
    double positions = elements_of(logits) / columns_of(logits);
    return which == STATISTICS ? limit_of_sums(o, which, positions, 0.0) : (shadow_limit){ .exact = true };
}

/* The gradients of weights are sums along rows. */
shadow_limit limit_of_unpermute_backward(const op *o, const op_home *home, int which)
{
    enum { D_WEIGHTS = 6 };
    return which == D_WEIGHTS ? limit_of_sums(o, which, columns_of(&o->operand[0].tensor), 0.0)
                              : (shadow_limit){ .exact = true };
}

shadow_limit limit_of_embedding_backward(const op *o, const op_home *home, int which)
{
    return limit_of_sums(o, which, elements_of(&o->operand[0].tensor), 0.0);
}

/* Sums over rows of the first operand. */
shadow_limit limit_of_column_sums(const op *o, const op_home *home, int which)
{
    const tensor *x = &o->operand[0].tensor, *sums = &o->operand[which].tensor;
    return limit_of_sums(o, which, elements_of(x) / elements_of(sums), 0.0);
}

shadow_limit limit_of_gelu_backward(const op *o, const op_home *home, int which)
{
    enum { BIAS_GRADIENT = 4 };
    return which == BIAS_GRADIENT ? limit_of_column_sums(o, home, which) : (shadow_limit){ .exact = true };
}

/* Sums along rows of the first operand. A loss is a sum of doubles, each with the error of such a sum. */
shadow_limit limit_of_rows(const op *o, const op_home *home, int which)
{
    shadow_limit sums = limit_of_sums(o, which, columns_of(&o->operand[0].tensor), 0.0);
    return o->operand[which].tensor.type == F64 ? (shadow_limit){ .roundings = sums.absolute } : sums;
}

/* The gradients of gain and bias are summed over rows. */
shadow_limit limit_of_norm_backward(const op *o, const op_home *home, int which)
{
    enum { GAIN_GRADIENT = 5, BIAS_GRADIENT = 7 };
    const tensor *x = &o->operand[0].tensor;
    bool over_rows = which == GAIN_GRADIENT || which == BIAS_GRADIENT;
    double terms = over_rows ? elements_of(x) / columns_of(x) : columns_of(x);
    return limit_of_sums(o, which, terms, 0.0);
}

shadow_limit limit_of_doubles(const op *o, const op_home *home, int which)
{
    return (shadow_limit){ .roundings = F64_UNITS };
}

/* Like limit_of_sums, in double. 32: the largest total is seldom below 1/16 of the root of the sum of squares. */
shadow_limit limit_of_signed_sums(const op *o, const op_home *home, int which)
{
    return (shadow_limit){ .absolute = (32 * sqrt(elements_of(&o->operand[0].tensor)) + 16) * 0x1p-53 };
}

/* The scalars use pow and cos of each machine: within 2 units of 2^-52 for CUDA, within 1 for the host. 1 / (1 -
 * beta^t) multiplies the error of pow by its own value, at most 1 / (1 - beta). The error of the learning rate is
 * relative to the maximum rate, far below the largest scalar. */
shadow_limit limit_of_scalars(const op *o, const op_home *home, int which)
{
    const step_begin_args *a = &o->args.step_begin;
    double largest_correction = 1.0 / (1.0 - fmax((double)a->beta1, (double)a->beta2));
    return (shadow_limit){ .roundings = F64_UNITS + 3 * 0x1p-52 * largest_correction, .absolute = 3 * 0x1p-52 };
}

/* A sum of n parts in a format of unit roundoff u is off by at most ((1 + u)^(n - 1) - 1) times the sum of their
 * magnitudes, in any order (Higham 2002, lemma 3.1). The host adds FP32 and BF16 in FP32 and rounds the result once, by
 * half a unit in its last place. NCCL adds BF16 in BF16, so the limit is wide for many ranks. The reference and sums of
 * F64 have u = 2^-53; for F64 twice that is allowed. */
double limit_of_rank_sum(const op_home *home, dtype type, int ranks, double result, double magnitudes)
{
    int exponent, digits = type == BF16 ? 8 : 24;
    double u = type == F64 ? 0x1p-52 : type == BF16 && home->cuda ? BF16_HALF_UNIT : F32_HALF_UNIT;
    double gamma = expm1((double)(ranks - 1) * log1p(u));
    frexp(result, &exponent);
    double half_unit = type == F64 ? 0.0 : ldexp(0.5, (exponent > -125 ? exponent : -125) - digits);
    return half_unit + gamma * magnitudes;
}

/* ---- attention ---- */

/* Returns the largest root mean square of a channel of keys over the largest standard deviation of one, at most 64. */
static double key_offset(const tensor *k)
{
    int64_t positions = k->dim[0], channels = k->data ? tensor_elements(k) / positions : 0;
    double square = 0.0, variance = 0.0;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0.0, squares = 0.0;
        for (int64_t i = 0; i < positions; i++) {
            double x = tensor_value(k, tensor_place(k, i * channels + c));
            sum += x, squares += x * x;
        }
        square = fmax(square, squares);
        variance = fmax(variance, squares - sum * sum / (double)positions);
    }
    return variance > 0.0 ? fmin(sqrt(square / variance), 64.0) : 1.0;
}

/* BF16 kernels of attention round probabilities and their gradients to BF16 before products. Each is off by up to half
 * a unit: a standard deviation of half a unit / sqrt(3), independent of the others. A sum is off by 6 deviations at
 * most, 3.5 half units of the root of its squared terms. If signs are random, the largest sum is no smaller than that
 * root: 4 half units. Largest measured: forward 0.74, so 1 is allowed; dk 0.78; dv 1.01; dq 1.14. In dq, the gradients
 * of one query's probabilities add up to zero: the common part of the keys cancels, but its roundings remain. Keys of
 * mean 5 and deviation 1 (offset 5.1) gave 2.84. (Sequences of 16 to 512, heads of 16 to 128, 1 and 4 to a key, causal
 * or not; keys of deviation 0.05, 1 and 4; roundings alone, in double.) */
static const double FORWARD_HALF_UNITS = 1, BACKWARD_HALF_UNITS = 4;

/* If the library may compute attention, its FP32 results were rounded to BF16 (cuda/attention/attention_staging.h):
 * half a unit more. If it adds to a result, this is half a unit of the added part, which is assumed to be no larger
 * than the largest sum. */
static shadow_limit staged_limit(shadow_limit limit, const op *o, int which)
{
    bool adds = o->operand[which].access == UPDATE;
    if (o->operand[0].tensor.type != BF16 || o->operand[which].tensor.type != F32) return limit;
    limit.roundings += adds ? 0.0 : BF16_HALF_UNIT;
    limit.absolute += adds ? BF16_HALF_UNIT : 0.0;
    return limit;
}

shadow_limit limit_of_attention_forward(const op *o, const op_home *home, int which)
{
    enum { OUT = 3 };
    bool bf16 = o->operand[0].tensor.type == BF16;
    double keys = (double)o->operand[1].tensor.dim[0];
    double rounding = bf16 && which == OUT ? FORWARD_HALF_UNITS * BF16_HALF_UNIT : 0.0;
    return limit_of_sums(o, which, keys, rounding);
}

shadow_limit limit_of_attention_backward(const op *o, const op_home *home, int which)
{
    enum { DQ = 6 };
    const tensor *q = &o->operand[0].tensor, *k = &o->operand[1].tensor;
    double queries_and_keys = (double)(q->dim[0] * (q->dim[2] / k->dim[2]) + k->dim[0]);
    double rounding = q->type == BF16 ? BACKWARD_HALF_UNITS * BF16_HALF_UNIT : 0.0;
    shadow_limit limit = limit_of_sums(o, which, queries_and_keys, which == DQ ? rounding * key_offset(k) : rounding);
    bool library = home->cuda && !home->own_attention && !home->deterministic;
    return library ? staged_limit(limit, o, which) : limit;
}

/* ---- random signs ---- */

double signed_sum_limit(double comparisons)
{
    static const double false_alarms = 1e-6;
    return sqrt(2.0 * log(2.0 * fmax(comparisons, 1.0) / false_alarms));
}
