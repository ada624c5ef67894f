/* Arithmetic that all backends share. C and CUDA give the same bits, because these functions use only fmaf and sqrtf of
 * libm and are compiled without contraction. XGSW_SHARED (command line) means "inline everywhere". */
#pragma once
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Largest head dim of the attention kernels; decks with a larger one are refused. */
enum { LARGEST_HEAD_DIM = 256 };

typedef struct {
    uint32_t word[4];
} philox_block;

/* Returns a block of Philox 4x32 with 10 rounds (Salmon et al., SC11, section 3.3). */
XGSW_SHARED philox_block philox4x32(philox_block counter, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * counter.word[0], b = (uint64_t)0xCD9E8D57u * counter.word[2];
        philox_block next = { { (uint32_t)(b >> 32) ^ counter.word[1] ^ key0, (uint32_t)b,
                                (uint32_t)(a >> 32) ^ counter.word[3] ^ key1, (uint32_t)a } };
        counter = next;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* Returns the sum of the block's eight 16-bit numbers minus its mean; variance 8 (65536^2 - 1) / 12. */
XGSW_SHARED int32_t philox_normal(philox_block block)
{
    uint32_t sum = 0;
    for (int i = 0; i < 4; i++) sum += (block.word[i] & 0xFFFFu) + (block.word[i] >> 16);
    return (int32_t)sum - 262140;
}

/* Limits a number to the bounds of an integer type, as a GPU's conversion does; NaN becomes 0. */
XGSW_SHARED double clamp_number(double x, double low, double high)
{
    return x > low ? (x < high ? x : high) : x <= low ? low : 0.0;
}

XGSW_SHARED uint32_t mulhi(uint32_t x, uint32_t n) { return (uint32_t)(((uint64_t)x * n) >> 32); }

/* Mixes 64 bits, one to one; an input bit changes about half of the output (Stafford's mix 13, as in SplitMix64). */
XGSW_SHARED uint64_t mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}
/* Returns an element's term of a digest. The sums of two different tensors are equal with probability 2^-64. */
XGSW_SHARED uint64_t digest_element(uint64_t key, int64_t index, uint64_t bits)
{
    return mix64(mix64(key + (uint64_t)index * 0x9E3779B97F4A7C15u) ^ bits);
}

XGSW_SHARED float float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
XGSW_SHARED uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/* Random signs: signs_key makes a step's key, signs_of the signs of 32 elements. A set bit i negates element i. */
enum { SIGN_RUN = 32 };
XGSW_SHARED uint64_t signs_key(uint64_t key, double step)
{
    uint64_t bits;
    memcpy(&bits, &step, sizeof bits);
    return mix64(key ^ mix64(bits));
}
XGSW_SHARED uint32_t signs_of(uint64_t key, int64_t run)
{
    return (uint32_t)mix64(key + (uint64_t)run * 0x9E3779B97F4A7C15u);
}
XGSW_SHARED float signed_value(float x, uint32_t signs, int i)
{
    return float_from_bits(float_bits(x) ^ (signs >> i & 1u) << 31);
}

/* Masks bits, because gcc 12 does not vectorize a conditional product or sum. */
XGSW_SHARED float zero_unless(bool use, float x) { return float_from_bits(float_bits(x) & (0u - (uint32_t)use)); }

XGSW_SHARED float bf16_widen(uint16_t x) { return float_from_bits((uint32_t)x << 16); }

/* Rounds to nearest even; NaN becomes the canonical NaN, as in a GPU's conversion. */
XGSW_SHARED uint16_t bf16_round(float x)
{
    uint32_t bits = float_bits(x), rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    return (uint16_t)((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFu : rounded >> 16);
}

/* Returns e^x: 2^n times the Taylor polynomial of degree 7 of e^r, |r| <= ln2 / 2 (relative error below 3e-7).
 * Arguments are clamped to [-87, 88], so the result is finite and positive. */
XGSW_SHARED float exp_shared(float x)
{
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float shifted = fmaf(x, 1.44269504f, 12582912.0f), n = shifted - 12582912.0f;
    float r = fmaf(n, -0.693359375f, x);
    r = fmaf(n, 2.12194440e-4f, r);
    float p = 1.98412698e-4f;
    p = fmaf(p, r, 1.38888889e-3f);
    p = fmaf(p, r, 8.33333333e-3f);
    p = fmaf(p, r, 4.16666667e-2f);
    p = fmaf(p, r, 1.66666667e-1f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    return p * float_from_bits((float_bits(shifted) - 0x4B400000u + 127u) << 23);
}

/* Returns the probability e^(score - lse), at most 1 although rounding may put a score above its log-sum-exp. */
XGSW_SHARED float probability_shared(float score, float lse)
{
    float logarithm = score - lse;
    return exp_shared(logarithm > 0.0f ? 0.0f : logarithm);
}

/* Returns the gradient p (dp - dot) of a score; dot = sum of p dp over the keys. If p is 1, dp - dot is only a rounding
 * error, which large keys would amplify, so the gradient is 0. */
XGSW_SHARED float score_gradient(float p, float dp, float dot) { return zero_unless(p != 1.0f, p * (dp - dot)); }

/* The factors of a row's gradient of logits, power * factor * scale for power = e^(logit - maximum): factor = 1 / (sum
 * of powers) and scale are at most 1. smallest: gradients of smaller powers are 0 (DEFINITIONS.md), because they would
 * be subnormal, and products with such numbers are slow. It lies 2^-20 above the exact bound, for its own roundings. */
typedef struct {
    float factor, scale, smallest;
} logit_scale;
XGSW_SHARED logit_scale logit_scale_of(float sum, float scale)
{
    float factor = 1.0f / sum;
    logit_scale s = { factor, scale, 0x1.00001p-126f / scale / factor };
    return s;
}

/* Returns the gradient of a logit; label_gradient that of the label's. NaN stays. */
XGSW_SHARED float logit_gradient(logit_scale s, float power)
{
    return zero_unless(!(power < s.smallest), power) * s.factor * s.scale;
}
XGSW_SHARED float label_gradient(logit_scale s, float power) { return fmaf(power, s.factor, -1.0f) * s.scale; }

XGSW_SHARED float sigmoid_shared(float x) { return 1.0f / (1.0f + exp_shared(-x)); }

/* Returns silu(gate) * up; swiglu_derivative its two derivatives times d. */
XGSW_SHARED float swiglu_value(float gate, float up) { return gate * sigmoid_shared(gate) * up; }
typedef struct {
    float gate, up;
} gated_gradient;
XGSW_SHARED gated_gradient swiglu_derivative(float gate, float up, float d)
{
    float s = sigmoid_shared(gate);
    gated_gradient g = { d * up * s * fmaf(gate, 1.0f - s, 1.0f), d * gate * s };
    return g;
}

/* Returns gelu(x) = x (1 + tanh u) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks & Gimpel 2016), as x sigmoid(2
 * u); gelu_derivative its derivative. The error from the formula in double is below 1e-6 (1 + |x|). */
XGSW_SHARED float gelu_value(float x) { return x * sigmoid_shared(x * fmaf(0.0713548163f, x * x, 1.59576912f)); }
XGSW_SHARED float gelu_derivative(float x)
{
    float s = sigmoid_shared(x * fmaf(0.0713548163f, x * x, 1.59576912f));
    return s * fmaf(x * (1.0f - s), fmaf(0.214064449f, x * x, 1.59576912f), 1.0f);
}

/* Returns gelu(gate) * up; geglu_derivative its two derivatives times d. */
XGSW_SHARED float geglu_value(float gate, float up) { return gelu_value(gate) * up; }
XGSW_SHARED gated_gradient geglu_derivative(float gate, float up, float d)
{
    gated_gradient g = { d * up * gelu_derivative(gate), d * gelu_value(gate) };
    return g;
}

/* The two largest logits of a row; of equal ones, those with the lower index. They are added one by one. */
typedef struct {
    int expert[2]; /* -1: none yet */
    float logit[2];
} top_two;
XGSW_SHARED top_two top_two_none(void)
{
    top_two t = { { -1, -1 }, { 0.0f, 0.0f } };
    return t;
}
XGSW_SHARED top_two top_two_with(top_two t, int expert, float logit)
{
    bool first = t.expert[0] < 0 || logit > t.logit[0], second = t.expert[1] < 0 || logit > t.logit[1];
    int runner_up = first ? t.expert[0] : expert;
    float runner_up_logit = first ? t.logit[0] : logit;
    t.expert[1] = first || second ? runner_up : t.expert[1];
    t.logit[1] = first || second ? runner_up_logit : t.logit[1];
    t.expert[0] = first ? expert : t.expert[0];
    t.logit[0] = first ? logit : t.logit[0];
    return t;
}
/* Softmax over two numbers. */
typedef struct {
    float of[2];
} pair_weights;
XGSW_SHARED pair_weights pair_softmax(float first, float second)
{
    float largest = first > second ? first : second, a = exp_shared(first - largest), b = exp_shared(second - largest);
    pair_weights w = { { a / (a + b), b / (a + b) } };
    return w;
}
/* Returns max(x, 0)^2; squared_relu_derivative its derivative times d. NaN stays NaN. */
XGSW_SHARED float squared_relu_value(float x)
{
    float positive = zero_unless(!(x < 0.0f), x);
    return positive * positive;
}
XGSW_SHARED float squared_relu_derivative(float x, float d) { return 2.0f * zero_unless(!(x < 0.0f), x) * d; }

/* AdamW (Loshchilov & Hutter, algorithm 2); correction1,2 = 1 / (1 - beta^(t+1)). The square of a gradient below 2^-58
 * is 0: it would be subnormal, and far below epsilon. */
typedef struct {
    float beta1, beta2, epsilon, decay;
} adamw_rule;
typedef struct {
    float weight, first, second;
} adamw_state;
XGSW_SHARED void adamw_update(const adamw_rule *rule, float learning_rate, float correction1, float correction2,
                              adamw_state *s, float gradient)
{
    const uint32_t smallest = (127u - 58u) << 23;
    float squared = zero_unless((float_bits(gradient) & 0x7FFFFFFFu) >= smallest, gradient);
    s->first = fmaf(rule->beta1, s->first, (1.0f - rule->beta1) * gradient);
    s->second = fmaf(rule->beta2, s->second, (1.0f - rule->beta2) * (squared * squared));
    float step = (s->first * correction1) / (sqrtf(s->second * correction2) + rule->epsilon);
    s->weight = s->weight - learning_rate * fmaf(rule->decay, s->weight, step);
}
