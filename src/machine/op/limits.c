/* How far an operation may be from the host's, kind by kind. Whole operations of the host itself, and kinds that move,
 * count or make each element by base/numeric.h alone, are equal bit for bit and have no limit here. The others add the
 * same terms in another order: n terms of size x differ by about sqrt(n) x 2^-24, bounded here by 2 sqrt(n) + 16 times
 * 2^-24 of the tensor's largest value; rounding once on either side adds 2 halves of a unit in the last place. */
#include "machine/op/limits.h"
#include <math.h>

/* Half a unit in the last place, relative to the smallest number that has it. */
static const double F32_HALF_UNIT = 0x1p-24, BF16_HALF_UNIT = 0x1p-8, F64_UNITS = 16 * 0x1p-52;

static double columns_of(const tensor *t) { return (double)t->dim[t->dims - 1]; }
static double elements_of(const tensor *t) { return (double)tensor_elements(t); }

/* Terms of the longest sum in an output element, and what is off by more than the order of adding. */
static shadow_limit limit_of_sums(const op *o, int which, double terms, double more)
{
    bool bf16 = o->operand[which].tensor.type == BF16;
    return (shadow_limit){ .roundings = 2 * (bf16 ? BF16_HALF_UNIT : F32_HALF_UNIT),
                           .absolute = (2 * sqrt(terms) + 16) * F32_HALF_UNIT + more };
}

/* Tensor cores cut the FP32 sum of each 16 products instead of rounding it: half a unit each, of one sign, adds up. */
enum { TENSOR_CORE_DEPTH = 16 };

/* Hopper's sum 32 products of FP8 codes and what was summed before them at a time: each is aligned with the largest and
 * keeps 14 bits, so it is cut by half of 2^-13 of that in the mean (DeepSeek-V3 2024, 3.3.2; gpu.md). Of the sum itself
 * these errors have one sign and add up; of products they have theirs, and n of them grow like sqrt(n), bounded here by
 * 2 sqrt(n). The sum so kept is all of it with fast accumulation, where both are E4M3; else that of 128 products, which
 * are then added in FP32: off by a share of what they are, they leave the whole off by no larger one.
 * Assumed, not measured: that 14 bits and 128 products are what cuBLASLt's kernels keep and add, that cutting is
 * towards zero, and that no largest product is far beyond the tensor's largest sum. Hosts, and GPUs that are emulated,
 * sum in FP32. A scale that is no power of two rounds each value once more on the host, as signs are random: among
 * the 16. */
enum { FP8_DEPTH = 32, FP8_PROMOTED = 128 };
static const double FP8_SUM_HALF_UNIT = 0x1p-14;

static double cut_sums(double terms, bool fast)
{
    double kept = fast ? terms : fmin(terms, FP8_PROMOTED);
    return (kept / FP8_DEPTH + 2 * sqrt(kept)) * FP8_SUM_HALF_UNIT;
}

const tensor *product_bias(const op *o)
{
    static const tensor none;
    enum { BIAS = 3 };
    return o->kind == OP_MATMUL ? &o->operand[BIAS].tensor : &none;
}

/* Most of cuBLASLt's kernels for Hopper round a product to BF16 before they add a BF16 matrix or a bias (seen on an
 * H100, 13.1): by half a unit of the product. */
static double rounded_before(const op *o, const op_home *home)
{
    bool adds = o->operand[0].access == UPDATE || tensor_present(product_bias(o));
    return home->cuda && adds && o->operand[0].tensor.type == BF16 ? BF16_HALF_UNIT : 0.0;
}

shadow_limit limit_of_product(const op *o, const op_home *home, int which)
{
    const tensor *a = &o->operand[1].tensor, *b = &o->operand[2].tensor;
    double terms = columns_of(a), chain = a->type == BF16 ? terms / TENSOR_CORE_DEPTH : 0.0;
    bool codes = dtype_bytes(a->type) == 1, fast = a->type == E4M3 && b->type == E4M3;
    shadow_limit limit =
        limit_of_sums(o, which, terms, codes && home->cuda ? cut_sums(terms, fast) : chain * F32_HALF_UNIT);
    limit.product = rounded_before(o, home);
    return limit;
}

/* Only probabilities, added up over positions, may differ. Up to 2^19 positions the limit is below half a count. */
shadow_limit limit_of_router(const op *o, const op_home *home, int which)
{
    enum { STATISTICS = 6 };
    const tensor *logits = &o->operand[0].tensor;
    double positions = elements_of(logits) / columns_of(logits);
    return which == STATISTICS ? limit_of_sums(o, which, positions, 0.0) : (shadow_limit){ .exact = true };
}

/* The weights' gradients are sums along rows. */
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

/* Sums along rows of the first operand; a loss is a sum of doubles, each off as such a sum is. */
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

/* As limit_of_sums, in double. The largest total is seldom below a sixteenth of the root of the sum of squares. */
shadow_limit limit_of_signed_sums(const op *o, const op_home *home, int which)
{
    return (shadow_limit){ .absolute = (32 * sqrt(elements_of(&o->operand[0].tensor)) + 16) * 0x1p-53 };
}

/* The step's scalars use each machine's own pow and cos: CUDA's are within 2 units of 2^-52, the host's within 1. 1 /
 * (1 - beta^t) multiplies pow's error by as much as it is, at most 1 / (1 - beta); the rate's is relative to the
 * maximum rate, far below the largest scalar. */
shadow_limit limit_of_scalars(const op *o, const op_home *home, int which)
{
    const step_begin_args *a = &o->args.step_begin;
    double largest_correction = 1.0 / (1.0 - fmax((double)a->beta1, (double)a->beta2));
    return (shadow_limit){ .roundings = F64_UNITS + 3 * 0x1p-52 * largest_correction, .absolute = 3 * 0x1p-52 };
}

/* A sum of n parts in a format of unit roundoff u is off by at most ((1 + u)^(n - 1) - 1) times the sum of their
 * magnitudes (Higham 2002, lemma 3.1), whatever the order. The host adds FP32 and BF16 in FP32 and rounds the result
 * once, by half a unit in its last place; NCCL adds BF16 in BF16, so that the bound of many ranks is wide. The sum in
 * double that it is compared with, and sums of doubles on either machine, have u = 2^-53: twice that is allowed for. */
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

/* The largest root mean square of a channel of keys over the largest deviation from a channel's mean, at most 64. */
static double offset_of(const tensor *k)
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

/* Attention's kernels on BF16 feed probabilities and their gradients to the products as BF16: each off by up to half a
 * unit, a deviation of half a unit / sqrt(3), independent of the others. A sum of such is off by 6 deviations at
 * most, 3.5 half units of the root of its squared terms, and the largest of the sums is no smaller than that root where
 * the terms' signs are random: 4 half units. Of a forward the measured largest is 0.74, so 1 is allowed; of dk 0.78, of
 * dv 1.01; of dq 1.14. But the gradients of one query's probabilities add up to zero, so that dq loses what the keys
 * have in common, and the roundings of that part stay: keys of mean 5 and deviation 1 (offset 5.1) gave 2.84.
 * (Sequences of 16 to 512, heads of 16 to 128, 1 and 4 to a key, causal or not; keys of deviation 0.05, 1 and 4; in
 * double, the roundings alone.) */
static const double FORWARD_HALF_UNITS = 1, BACKWARD_HALF_UNITS = 4;

/* Where the library may compute attention, what it writes in FP32 was BF16 before (cuda/attention/attention_staging.h):
 * off by half a unit more. Of a sum that it adds to, half a unit of the part that is added; the largest part is taken
 * to be no larger than the largest sum, as above. */
static shadow_limit staged(shadow_limit limit, const op *o, int which)
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
    double inside = bf16 && which == OUT ? FORWARD_HALF_UNITS * BF16_HALF_UNIT : 0.0;
    return limit_of_sums(o, which, keys, inside);
}

shadow_limit limit_of_attention_backward(const op *o, const op_home *home, int which)
{
    enum { DQ = 6 };
    const tensor *q = &o->operand[0].tensor, *k = &o->operand[1].tensor;
    double queries_and_keys = (double)(q->dim[0] * (q->dim[2] / k->dim[2]) + k->dim[0]);
    double inside = q->type == BF16 ? BACKWARD_HALF_UNITS * BF16_HALF_UNIT : 0.0;
    shadow_limit limit = limit_of_sums(o, which, queries_and_keys, which == DQ ? inside * offset_of(k) : inside);
    bool library = home->cuda && !home->own_attention && !home->deterministic;
    return library ? staged(limit, o, which) : limit;
}

/* ---- random signs ---- */

double signed_sum_limit(double comparisons)
{
    static const double false_alarms = 1e-6;
    return sqrt(2.0 * log(2.0 * fmax(comparisons, 1.0) / false_alarms));
}
