/* Shared arithmetic: philox against the published vectors, normal numbers, BF16 rounding, exp, gelu, AdamW; FP8 values
 * and scales against the definition of the formats, computed in double. */
#include "base/fp8.h"
#include "base/random.h"
#include "units/tests.h"

/* Source: Random123, kat_vectors, philox4x32 with 10 rounds. */
static void philox_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], wanted[4];
    } rows[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        philox_block counter;
        memcpy(counter.word, rows[i].counter, sizeof counter.word);
        philox_block got = philox4x32(counter, rows[i].key[0], rows[i].key[1]);
        assert_memory_equal(got.word, rows[i].wanted, sizeof got.word);
    }
}

static void fnv1a_known_answers(void **state)
{
    assert_int_equal(fnv1a(""), 0x811c9dc5u);
    assert_int_equal(fnv1a("a"), 0xe40c292cu);
    assert_int_equal(fnv1a("foobar"), 0xbf9cf968u);
}

/* The definition: the sum of the lanes, low half first, centred, then one FP32 multiplication. */
static void normal_element_is_the_definition(void **state)
{
    uint32_t key = fnv1a("layers.3.q");
    float scale = normal_scale(0.02);
    assert_true(scale == (float)(0.02 / sqrt(8.0 * (4294967296.0 - 1.0) / 12.0)));
    for (uint64_t index = 4294967290u; index < 4294967300u; index++) {
        philox_block counter = { { (uint32_t)(index & 0xFFFFFFFFu), (uint32_t)(index >> 32), 0, 0 } },
                     r = philox4x32(counter, 5, key);
        int64_t sum = -262140;
        for (int i = 0; i < 4; i++) sum += (int64_t)(r.word[i] % 65536u) + (int64_t)(r.word[i] / 65536u);
        assert_true(normal_element(5, key, index, scale) == (float)sum * scale);
    }
}

/* Checks, over a million numbers and within five standard errors: mean 0, variance 1, no skew, kurtosis 3 - 6/5/8
 * (Irwin-Hall distribution of eight). */
static void normal_numbers_have_their_moments(void **state)
{
    enum { COUNT = 1000000 };
    double moment[5] = { 0 };
    uint32_t key = fnv1a("embedding");
    float scale = normal_scale(1.0);
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = (double)normal_element(1, key, i, scale), power = 1;
        for (int k = 1; k < 5; k++) moment[k] += (power *= x) / COUNT;
    }
    assert_true(fabs(moment[1]) < 5e-3);
    assert_true(fabs(moment[2] - 1) < 5 * 1.4e-3);
    assert_true(fabs(moment[3]) < 5 * 3.6e-3);
    assert_true(fabs(moment[4] - 2.85) < 5 * 8.5e-3);
}

static void mulhi_stays_below(void **state)
{
    assert_int_equal(mulhi(0xFFFFFFFFu, 128256), 128255);
    assert_int_equal(mulhi(0, 128256), 0);
    assert_int_equal(mulhi(0x80000000u, 1000), 500);
}

/* Rounds to the nearer neighbour, ties to even. Tests every upper half with each kind of lower half. */
static void bf16_rounds_to_nearest_even(void **state)
{
    static const uint32_t lower[] = { 0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF };
    for (uint32_t upper = 0; upper < 65536; upper++)
        for (size_t i = 0; i < sizeof lower / sizeof lower[0]; i++) {
            float x = float_from_bits(upper << 16 | lower[i]);
            uint16_t got = bf16_round(x);
            if (isnan(x)) {
                assert_true(isnan(bf16_widen(got)));
                continue;
            }
            bool up = lower[i] > 0x8000 || (lower[i] == 0x8000 && upper % 2 == 1);
            assert_int_equal(got, (uint16_t)(upper + (up ? 1u : 0u)));
        }
}

static void bf16_widening_is_exact(void **state)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float x = bf16_widen((uint16_t)bits);
        if (!isnan(x)) assert_int_equal(bf16_round(x), bits);
    }
    assert_true(isinf(bf16_widen(bf16_round(3.4e38f))));
    assert_true(bf16_widen(bf16_round(-0.0f)) == 0.0f && signbit(bf16_widen(bf16_round(-0.0f))));
}

/* The relative error against double is below 3e-7 on [-87, 88]. Beyond, exp is finite and positive. exp(0) is 1. */
static void exp_is_accurate(void **state)
{
    double worst = 0;
    for (int32_t i = -87 * 16384; i <= 88 * 16384; i++) {
        float x = (float)i / 16384.0f;
        double error = fabs((double)exp_shared(x) / exp((double)x) - 1.0);
        if (error > worst) worst = error;
    }
    assert_true(worst < 3e-7);
    assert_true(exp_shared(0.0f) == 1.0f);
    assert_true(exp_shared(-1e30f) == exp_shared(-87.0f) && exp_shared(-87.0f) > 0.0f);
    assert_true(exp_shared(1e30f) == exp_shared(88.0f) && isfinite(exp_shared(88.0f)));
}

static void sigmoid_and_swiglu_are_accurate(void **state)
{
    for (int i = -2000; i <= 2000; i++) {
        double gate = i / 100.0, up = 0.75, s = 1 / (1 + exp(-gate)), d = 1.5;
        assert_true(fabs((double)sigmoid_shared((float)gate) / s - 1) < 2e-6);
        assert_true(fabs((double)swiglu_value((float)gate, (float)up) - gate * s * up) < 2e-6 * (1 + fabs(gate)));
        gated_gradient g = swiglu_derivative((float)gate, (float)up, (float)d);
        assert_true(fabs((double)g.up - d * gate * s) < 4e-6 * (1 + fabs(gate)));
        assert_true(fabs((double)g.gate - d * up * s * (1 + gate * (1 - s))) < 4e-6 * (1 + fabs(gate)));
    }
}

/* The error is within the bound in base/numeric.h, also where the cube is large. */
static void gelu_is_accurate(void **state)
{
    for (int i = -4000; i <= 4000; i++) {
        double x = i / 100.0, c = sqrt(2.0 / M_PI), t = tanh(c * (x + 0.044715 * x * x * x));
        double derivative = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
        assert_true(fabs((double)gelu_value((float)x) - 0.5 * x * (1 + t)) < 1e-6 * (1 + fabs(x)));
        assert_true(fabs((double)gelu_derivative((float)x) - derivative) < 1e-6 * (1 + fabs(x)));
    }
}

/* Compares two steps with the AdamW formula in double. */
static void adamw_is_the_rule(void **state)
{
    adamw_rule rule = { 0.9f, 0.95f, 1e-8f, 0.1f };
    adamw_state s = { .weight = 0.5f };
    double w = 0.5, m = 0, v = 0, gradients[] = { 0.25, -0.125 };
    for (int t = 0; t < 2; t++) {
        double g = gradients[t], c1 = 1 / (1 - pow(0.9, t + 1)), c2 = 1 / (1 - pow(0.95, t + 1));
        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * g * g;
        w -= 1e-2 * (m * c1 / (sqrt(v * c2) + 1e-8) + 0.1 * w);
        adamw_update(&rule, 1e-2f, (float)c1, (float)c2, &s, (float)g);
        assert_true(fabs((double)s.weight - w) < 1e-6 && fabs((double)s.first - m) < 1e-7 &&
                    fabs((double)s.second - v) < 1e-7);
    }
}

/* ---- FP8 ---- */

enum { CODES = 256, NAN_CODE = 0x7F };

/* A format as in Micikevicius et al. 2022, table 1. */
typedef struct {
    dtype type;
    int mantissa_bits, bias, largest_code;
    double largest, smallest;
    bool has_infinity;
} format;
static const format formats[] = { { E4M3, 3, 7, 0x7E, 448.0, 0x1p-9, false },
                                  { E5M2, 2, 15, 0x7B, 57344.0, 0x1p-16, true } };

/* Returns (-1)^sign 2^(exponent - bias) 1.mantissa, or 2^(1 - bias) 0.mantissa if the exponent is 0. */
static double number(const format *f, int code)
{
    int magnitude = code % 128, exponent = magnitude >> f->mantissa_bits;
    double fraction = (magnitude % (1 << f->mantissa_bits)) / (double)(1 << f->mantissa_bits);
    double sign = code < 128 ? 1.0 : -1.0;
    if (magnitude > f->largest_code) return f->has_infinity && fraction == 0.0 ? sign * (double)INFINITY : (double)NAN;
    return sign * (exponent ? ldexp(1.0 + fraction, exponent - f->bias) : ldexp(fraction, 1 - f->bias));
}

/* Every FP8 value decodes to its number. Every finite number encodes to the same value, and is exact in BF16. */
static void codes_are_numbers(void **state)
{
    for (const format *f = formats; f < formats + 2; f++) {
        assert_true(number(f, f->largest_code) == f->largest && (double)fp8_largest(f->type) == f->largest);
        assert_true(number(f, 1) == f->smallest);
        for (int code = 0; code < CODES; code++) {
            double want = number(f, code);
            float got = fp8_widen(f->type, (uint8_t)code);
            if (isnan(want)) {
                assert_true(float_bits(got) == 0x7FFF0000u);
                assert_int_equal(fp8_round(f->type, got), NAN_CODE);
                continue;
            }
            assert_true((double)got == want && !signbit(got) == !signbit(want));
            assert_true(float_bits(bf16_widen(bf16_round(got))) == float_bits(got));
            assert_int_equal(fp8_round(f->type, got), isinf(want) ? f->largest_code | (code & 0x80) : code);
        }
    }
}

/* Returns the FP8 value nearest to a magnitude (ties to even), found by bisection. */
static int nearest(const format *f, double magnitude)
{
    int below = 0, above = f->largest_code;
    if (magnitude >= f->largest) return above;
    while (above - below > 1) {
        int middle = (below + above) / 2;
        if (number(f, middle) <= magnitude) below = middle;
        else above = middle;
    }
    double to_below = magnitude - number(f, below), to_above = number(f, above) - magnitude;
    return to_below < to_above || (to_below == to_above && below % 2 == 0) ? below : above;
}

static void check_rounding(const format *f, uint32_t bits)
{
    float x = float_from_bits(bits);
    int want = isnan(x) ? NAN_CODE : nearest(f, fabs((double)x)) | (signbit(x) ? 0x80 : 0);
    if (fp8_round(f->type, x) != want)
        fail_msg("%s of %08x is %02x, not %02x", dtype_name(f->type), bits, fp8_round(f->type, x), want);
}

static void every_bf16_number_is_rounded_to_nearest_even(void **state)
{
    for (const format *f = formats; f < formats + 2; f++)
        for (uint32_t upper = 0; upper < 65536; upper++) check_rounding(f, upper << 16);
}

/* Tests random bits, and numbers in the range of the format. */
static void fp32_numbers_are_rounded_to_nearest_even(void **state)
{
    for (const format *f = formats; f < formats + 2; f++)
        for (uint32_t i = 0; i < 1000000; i++) {
            philox_block drawn = philox4x32((philox_block){ { i, 0, 0, 0 } }, 1, 2);
            check_rounding(f, drawn.word[0]);
            check_rounding(f, (drawn.word[1] & 0x807FFFFFu) | (uint32_t)(107 + drawn.word[2] % 40) << 23);
        }
}

/* Tests every number, every midpoint of two numbers, and the FP32 numbers next to the midpoint. */
static void ties_go_to_the_even_code(void **state)
{
    for (const format *f = formats; f < formats + 2; f++)
        for (int code = 0; code < f->largest_code; code++) {
            const double at[] = { number(f, code), 0.5 * (number(f, code) + number(f, code + 1)) };
            for (int i = 0; i < 2; i++)
                for (uint32_t away = 0; away < 3; away++) {
                    uint32_t bits = float_bits((float)at[i]);
                    assert_true((double)(float)at[i] == at[i]);
                    check_rounding(f, (bits ? bits : 1) - 1 + away);
                    check_rounding(f, 0x80000000u | ((bits ? bits : 1) - 1 + away));
                }
        }
}

/* ---- scales ---- */

/* Returns the largest power of two that is at most largest / amax, found by trying; or the quotient, rounded once.
 * Clamps amax to 2^-100 .. 2^100: beyond these limits the scale does not change. */
static double scale_by_trying(const format *f, double amax, bool exact)
{
    int exponent = -200;
    while (ldexp(amax, exponent + 1) <= f->largest) exponent++;
    if (exponent > 100 || exponent < -100) return exponent > 0 ? 0x1p100 : 0x1p-100;
    return exact ? (double)((float)f->largest / (float)amax) : ldexp(1.0, exponent);
}

static void check_scale(const format *f, uint32_t bits)
{
    float amax = float_from_bits(bits);
    for (int exact = 0; exact < 2; exact++) {
        float got = fp8_scale_of(f->type, (int32_t)bits, exact);
        double want = scale_by_trying(f, (double)amax, exact);
        if ((double)got != want)
            fail_msg("%s of amax %a: %a, not %a", dtype_name(f->type), (double)amax, (double)got, want);
        if (want > 0x1p-100) assert_in_range(fp8_round(f->type, amax * got), 0, f->largest_code);
        if (!exact && want > 0x1p-100) assert_true((double)amax * (double)got <= f->largest);
    }
}

/* Tests amaxes near every power of two and 1.75 times each, where the scale's exponent changes; subnormals too. */
static void scales_are_the_largest_that_fit(void **state)
{
    for (const format *f = formats; f < formats + 2; f++) {
        for (uint32_t binade = 0; binade < 255; binade++)
            for (uint32_t away = 0; away < 3; away++) {
                if (binade || away > 1) check_scale(f, (binade << 23) - 1 + away);
                check_scale(f, (binade << 23 | 0x600000u) - 1 + away);
            }
        for (uint32_t bits = 1; bits; bits = bits << 1 & 0x7FFFFFu) check_scale(f, bits);
        for (uint32_t i = 0; i < 100000; i++) {
            uint32_t bits = philox4x32((philox_block){ { i, 0, 0, 0 } }, 3, 4).word[0] & 0x7FFFFFFFu;
            if (bits > 0 && bits < 0x7F800000u) check_scale(f, bits);
        }
        assert_true((double)fp8_scale_of(f->type, amax_bits((float)f->largest), true) == 1.0);
        assert_true((double)fp8_scale_of(f->type, amax_bits((float)f->largest), false) == 1.0);
    }
}

/* amax 0: values stay unchanged. amax is not finite: the product is not finite either. */
static void scales_of_no_number(void **state)
{
    for (const format *f = formats; f < formats + 2; f++)
        for (int exact = 0; exact < 2; exact++) {
            assert_true(fp8_scale_of(f->type, amax_bits(-0.0f), exact) == 1.0f);
            assert_int_equal(float_bits(fp8_scale_of(f->type, amax_bits(-INFINITY), exact)), 0x7FFF0000u);
            assert_int_equal(float_bits(fp8_scale_of(f->type, amax_bits(-NAN), exact)), 0x7FFF0000u);
        }
}

/* As integers, amaxes have the order of magnitudes, then infinity, then NaN. */
static void amaxes_are_ordered(void **state)
{
    static const float rising[] = { 0.0f, 1e-45f, -1e-38f, 1.0f, -1.0000001f, -3e38f, -INFINITY, -NAN };
    for (size_t i = 1; i < sizeof rising / sizeof *rising; i++)
        assert_true(amax_bits(rising[i - 1]) < amax_bits(rising[i]));
}

TEST_PROGRAM("numeric", NULL, NULL, philox_known_answers, fnv1a_known_answers, normal_element_is_the_definition,
             normal_numbers_have_their_moments, mulhi_stays_below, bf16_rounds_to_nearest_even, bf16_widening_is_exact,
             exp_is_accurate, sigmoid_and_swiglu_are_accurate, gelu_is_accurate, adamw_is_the_rule, codes_are_numbers,
             every_bf16_number_is_rounded_to_nearest_even, fp32_numbers_are_rounded_to_nearest_even,
             ties_go_to_the_even_code, scales_are_the_largest_that_fit, scales_of_no_number, amaxes_are_ordered)
