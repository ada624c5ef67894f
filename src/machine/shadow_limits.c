/* How far an operation may be from the host's, kind by kind. Kinds whose elements are made by base/numeric.h alone, or
 * that move or count, are equal bit for bit. The others add the same terms in another order: n terms of size x give
 * about sqrt(n) x 2^-24 of difference, bounded here by 2 sqrt(n) + 16 times 2^-24 of the tensor's largest value; and
 * what is rounded once on either side differs by at most 2 halves of a unit in the last place on top. */
#include "base/numeric.h"
#include "machine/shadow.h"
#include <math.h>

/* Half a unit in the last place, relative to the smallest number that has it. */
static const double F32_HALF_UNIT = 0x1p-24, BF16_HALF_UNIT = 0x1p-8, F64_UNITS = 16 * 0x1p-52;

/* Terms of the longest sum in an output element. */
static double terms_of(const op *o, int which)
{
    const tensor *x = &o->operand[0].tensor, *second = &o->operand[1].tensor;
    int64_t columns = x->dim[x->dims - 1];
    switch (o->kind) {
    case OP_MATMUL: return (double)second->dim[1];
    case OP_NORM_FORWARD: return (double)columns;
    case OP_NORM_BACKWARD: return (double)(which == 5 ? tensor_elements(x) / columns : columns);
    case OP_ATTENTION_FORWARD: return (double)second->dim[0];
    case OP_ATTENTION_BACKWARD: return (double)(x->dim[0] * (x->dim[2] / second->dim[2]) + second->dim[0]);
    case OP_EMBEDDING_BACKWARD: return (double)tensor_elements(x);
    case OP_CROSS_ENTROPY: return (double)columns;
    default: return 1.0;
    }
}

static double value_of(const tensor *t, int64_t i)
{
    int64_t place = tensor_place(t, i);
    return (double)(t->type == BF16 ? bf16_widen(((const uint16_t *)t->data)[place]) : ((const float *)t->data)[place]);
}

/* The largest root mean square of a channel of keys over the largest deviation from a channel's mean, at most 64. */
static double offset_of(const tensor *k)
{
    int64_t positions = k->dim[0], channels = k->data ? tensor_elements(k) / positions : 0;
    double square = 0.0, variance = 0.0;
    for (int64_t c = 0; c < channels; c++) {
        double sum = 0.0, squares = 0.0;
        for (int64_t i = 0; i < positions; i++) {
            double x = value_of(k, i * channels + c);
            sum += x, squares += x * x;
        }
        square = fmax(square, squares);
        variance = fmax(variance, squares - sum * sum / (double)positions);
    }
    return variance > 0.0 ? fmin(sqrt(square / variance), 64.0) : 1.0;
}

enum { KEYS = 1, OUT = 3, DQ = 6 }; /* operands of attention */

/* Attention's kernels on BF16 feed probabilities and their gradients to the products as BF16: each off by up to half a
 * unit, a deviation of half a unit / sqrt(3), independent of the others. A sum of such is off by 6 deviations at
 * most, 3.5 half units of the root of its squared terms, and the largest of the sums is no smaller than that root where
 * the terms' signs are random: 4 half units. Of a forward the measured largest is 0.74, so 1 is allowed; of dk 0.78, of
 * dv 1.01; of dq 1.14. But the gradients of one query's probabilities add up to zero, so that dq loses what the keys
 * have in common, and the roundings of that part stay: keys of mean 5 and deviation 1 (offset 5.1) gave 2.84.
 * (Sequences of 16 to 512, heads of 16 to 128, 1 and 4 to a key, causal or not; keys of deviation 0.05, 1 and 4; in
 * double, the roundings alone.) */
static double internal_rounding(const op *o, int which)
{
    bool bf16 = o->operand[0].tensor.type == BF16;
    if (o->kind == OP_ATTENTION_FORWARD && bf16 && which == OUT) return BF16_HALF_UNIT;
    if (o->kind == OP_ATTENTION_BACKWARD && bf16)
        return 4 * BF16_HALF_UNIT * (which == DQ ? offset_of(&o->operand[KEYS].tensor) : 1.0);
    return 0.0;
}

/* Where the library may compute attention, what it writes in FP32 was BF16 before (cuda/attention/attention_staging.h):
 * off by half a unit more. Of a sum that it adds to, half a unit of the part that is added; the largest part is taken
 * to be no larger than the largest sum, as above. */
static bool is_staged(const op *o, const op_home *home, int which)
{
    bool library =
        home->cuda && !home->own_attention && o->operand[0].tensor.type == BF16 && o->operand[which].tensor.type == F32;
    if (o->kind == OP_ATTENTION_FORWARD) return library && which == OUT;
    return library && o->kind == OP_ATTENTION_BACKWARD && which >= DQ && !home->deterministic;
}

static shadow_limit staging_of(const op *o, const op_home *home, int which)
{
    bool adds = o->operand[which].access == UPDATE;
    if (!is_staged(o, home, which)) return (shadow_limit){ .exact = false };
    return (shadow_limit){ .roundings = adds ? 0.0 : BF16_HALF_UNIT, .absolute = adds ? BF16_HALF_UNIT : 0.0 };
}

static bool is_exact(op_kind kind)
{
    static const bool exact[OP_KINDS] = {
        [OP_EMBEDDING_FORWARD] = true,
        [OP_ROPE_FORWARD] = true,
        [OP_ROPE_BACKWARD] = true,
        [OP_ADD] = true,
        [OP_SWIGLU_FORWARD] = true,
        [OP_SWIGLU_BACKWARD] = true,
        [OP_ADAMW] = true,
        [OP_FILL] = true,
        [OP_COPY] = true,
        [OP_TOKENS] = true,
        [OP_SQUARE_SUM] = true,
        [OP_INITIALIZE] = true,
        [OP_SCALE] = true,
        [OP_FLIP] = true,
    };
    return exact[kind];
}

/* Of the step's scalars pow and cos are each machine's own: CUDA's are within 2 units of 2^-52, the host's within 1. 1
 * / (1 - beta^t) multiplies pow's error by as much as it is, at most 1 / (1 - beta); the rate's is relative to the
 * maximum rate, far below the largest scalar. */
static shadow_limit scalars_limit(const step_begin_args *a)
{
    double largest_correction = 1.0 / (1.0 - fmax((double)a->beta1, (double)a->beta2));
    return (shadow_limit){ .roundings = F64_UNITS + 3 * 0x1p-52 * largest_correction, .absolute = 3 * 0x1p-52 };
}

/* Tensor cores cut off the FP32 sum of each 16 products instead of rounding it: errors of one sign, half a unit each,
 * add up. */
enum { TENSOR_CORE_DEPTH = 16 };
static bool is_tensor_core_product(const op *o) { return o->kind == OP_MATMUL && o->operand[1].tensor.type == BF16; }

shadow_limit shadow_limit_of(const op *o, const op_home *home, int which)
{
    dtype type = o->operand[which].tensor.type;
    double terms = terms_of(o, which), chain = is_tensor_core_product(o) ? terms / TENSOR_CORE_DEPTH : 0.0;
    double absolute = (2 * sqrt(terms) + 16 + chain) * F32_HALF_UNIT + internal_rounding(o, which);
    shadow_limit staging = staging_of(o, home, which);
    if (is_exact(o->kind)) return (shadow_limit){ .exact = true };
    if (o->kind == OP_STEP_BEGIN) return scalars_limit(&o->args.step_begin);
    if (type == F64 && o->kind != OP_CROSS_ENTROPY) return (shadow_limit){ .roundings = F64_UNITS };
    if (type == F64) return (shadow_limit){ .roundings = absolute };
    return (shadow_limit){ .roundings = 2 * (type == BF16 ? BF16_HALF_UNIT : F32_HALF_UNIT) + staging.roundings,
                           .absolute = absolute + staging.absolute };
}
