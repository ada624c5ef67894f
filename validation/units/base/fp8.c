/* Compares FP8 values and scales with the definition of the formats, computed in double. */
#include "base/fp8.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_numbers),
        cmocka_unit_test(every_bf16_number_is_rounded_to_nearest_even),
        cmocka_unit_test(fp32_numbers_are_rounded_to_nearest_even),
        cmocka_unit_test(ties_go_to_the_even_code),
        cmocka_unit_test(scales_are_the_largest_that_fit),
        cmocka_unit_test(scales_of_no_number),
        cmocka_unit_test(amaxes_are_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
