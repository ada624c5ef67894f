/* FP8 as in tensor cores (Micikevicius et al. 2022): E4M3, largest 448, no infinity; E5M2, largest 57344. Values have
 * eight bits; numbers are multiplied by a scale before they are rounded to FP8. C and CUDA give the same bits. */
#pragma once
#include "base/dtype.h"
#include "base/numeric.h"

/* Rounds to nearest even. A number above the largest, also infinity, becomes the largest; NaN becomes 0x7F. The numbers
 * of a binade are whole multiples of a unit, which is 2^-mantissa_bits of the binade's beginning. Numbers below the
 * smallest normal one use the unit of the lowest binade. Adding 2^23 units makes FP32 round to whole units. The bit
 * patterns of a binade follow those of the previous binade. */
XGSW_SHARED uint8_t fp8_round(float x, uint32_t mantissa_bits, uint32_t bias, float largest)
{
    uint32_t bits = float_bits(x), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7FFFFFFFu;
    uint32_t limit = float_bits(largest), bounded = magnitude > limit ? limit : magnitude;
    uint32_t lowest = (128u - bias) << 23, own = bounded & 0x7F800000u, binade = own > lowest ? own : lowest;
    uint32_t many = binade + ((23u - mantissa_bits) << 23);
    uint32_t units = float_bits(float_from_bits(bounded) + float_from_bits(many)) - many;
    uint32_t code = ((binade - lowest) >> (23u - mantissa_bits)) + units;
    return (uint8_t)(magnitude > 0x7F800000u ? 0x7Fu : sign | code);
}
XGSW_SHARED uint8_t e4m3_round(float x) { return fp8_round(x, 3, 7, 448.0f); }
XGSW_SHARED uint8_t e5m2_round(float x) { return fp8_round(x, 2, 15, 57344.0f); }

/* Returns the number of an FP8 value, which BF16 holds exactly. Values below the smallest normal number are read as if
 * in the lowest binade, whose beginning is then subtracted. `infinity` is infinity; above it is NaN (0x7FFF0000). */
XGSW_SHARED float fp8_widen(uint8_t code, uint32_t mantissa_bits, uint32_t bias, uint32_t infinity)
{
    uint32_t sign = (uint32_t)(code & 0x80u) << 24, magnitude = code & 0x7Fu, lowest = (128u - bias) << 23;
    bool small = magnitude >> mantissa_bits == 0;
    uint32_t normal = (magnitude << (23u - mantissa_bits)) + lowest - (small ? 0u : 1u << 23);
    uint32_t finite = float_bits(float_from_bits(normal) - (small ? float_from_bits(lowest) : 0.0f));
    uint32_t beyond = magnitude == infinity ? 0x7F800000u | sign : 0x7FFF0000u;
    return float_from_bits(magnitude < infinity ? finite | sign : beyond);
}
/* E4M3 has no infinity; the one magnitude after the largest is NaN. */
XGSW_SHARED float e4m3_widen(uint8_t code)
{
    return (code & 0x7Fu) == 0x7Fu ? float_from_bits(0x7FFF0000u) : fp8_widen(code, 3, 7, 0x7Fu);
}
XGSW_SHARED float e5m2_widen(uint8_t code) { return fp8_widen(code, 2, 15, 0x7Cu); }

XGSW_SHARED uint8_t fp8_code(dtype type, float x) { return type == E4M3 ? e4m3_round(x) : e5m2_round(x); }
XGSW_SHARED float fp8_value(dtype type, uint8_t code) { return type == E4M3 ? e4m3_widen(code) : e5m2_widen(code); }
XGSW_SHARED float fp8_largest(dtype type) { return type == E4M3 ? 448.0f : 57344.0f; }

/* FP8 tensors of a product. All FP8 tensors are numbered in this order. fp8_format returns the format of a number. */
typedef enum { FP8_INPUT, FP8_WEIGHT, FP8_GRADIENT, FP8_KINDS } fp8_kind;
XGSW_SHARED dtype fp8_format(int64_t number) { return number % FP8_KINDS == FP8_GRADIENT ? E5M2 : E4M3; }

/* Returns an amax as the bits of a nonnegative float, which order as numbers do, with infinity and NaN on top. */
XGSW_SHARED int32_t amax_bits(float x) { return (int32_t)(float_bits(x) & 0x7FFFFFFFu); }

/* Returns the scale for a largest magnitude: largest / amax (`exact`), or the largest power of two that is not larger.
 * The power is limited to 2^-100 .. 2^100; if that limit applies, exact scales are the power, too. The scale is 1 for
 * amax 0 and NaN for infinity and NaN. In both formats the largest number is 1.75 times a power of two. */
XGSW_SHARED float fp8_scale_of(dtype type, int32_t amax, bool exact)
{
    uint32_t bits = (uint32_t)amax, largest = float_bits(fp8_largest(type));
    int32_t exponent = (int32_t)(largest >> 23) - (int32_t)(bits >> 23) - ((bits & 0x7FFFFFu) > 0x600000u ? 1 : 0);
    int32_t bounded = exponent > 100 ? 100 : exponent < -100 ? -100 : exponent;
    float power = float_from_bits((uint32_t)(127 + bounded) << 23);
    float scale = exact && bounded == exponent ? fp8_largest(type) / float_from_bits(bits) : power;
    return bits >= 0x7F800000u ? float_from_bits(0x7FFF0000u) : bits == 0 ? 1.0f : scale;
}
