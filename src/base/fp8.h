/* FP8 as in tensor cores (Micikevicius et al. 2022): E4M3, largest 448, no infinity; E5M2, largest 57344. Numbers are
 * multiplied by a scale before they are rounded to FP8. C and CUDA give the same bits. */
#pragma once
#include "base/dtype.h"
#include "base/numeric.h"

/* Rounds to nearest even. Larger numbers and infinity become the largest, NaN becomes 0x7F. In the binade from 2^e to
 * 2^(e+1), FP8 has the multiples of 2^(e - mantissa_bits), its unit; subnormals have the unit of the lowest binade.
 * Adding 2^23 units (shifter) makes FP32 round to a whole unit. The FP8 values of adjacent binades are consecutive. */
XGSW_SHARED uint8_t fp8_round_format(float x, uint32_t mantissa_bits, uint32_t bias, float largest)
{
    uint32_t bits = float_bits(x), sign = bits >> 24 & 0x80u, magnitude = bits & 0x7FFFFFFFu;
    uint32_t limit = float_bits(largest), bounded = magnitude > limit ? limit : magnitude;
    uint32_t lowest = (128u - bias) << 23, exponent = bounded & 0x7F800000u;
    uint32_t binade = exponent > lowest ? exponent : lowest;
    uint32_t shifter = binade + ((23u - mantissa_bits) << 23);
    uint32_t units = float_bits(float_from_bits(bounded) + float_from_bits(shifter)) - shifter;
    uint32_t rounded = ((binade - lowest) >> (23u - mantissa_bits)) + units;
    return (uint8_t)(magnitude > 0x7F800000u ? 0x7Fu : sign | rounded);
}
XGSW_SHARED uint8_t e4m3_round(float x) { return fp8_round_format(x, 3, 7, 448.0f); }
XGSW_SHARED uint8_t e5m2_round(float x) { return fp8_round_format(x, 2, 15, 57344.0f); }

/* Converts to FP32, exactly (BF16 would suffice). Subnormals are read as numbers of the lowest binade, and 2^(1 - bias)
 * is then subtracted. infinity: its bits without sign; larger ones are NaN (0x7FFF0000). */
XGSW_SHARED float fp8_widen_format(uint8_t value, uint32_t mantissa_bits, uint32_t bias, uint32_t infinity)
{
    uint32_t sign = (uint32_t)(value & 0x80u) << 24, magnitude = value & 0x7Fu, lowest = (128u - bias) << 23;
    bool small = magnitude >> mantissa_bits == 0;
    uint32_t normal = (magnitude << (23u - mantissa_bits)) + lowest - (small ? 0u : 1u << 23);
    uint32_t finite = float_bits(float_from_bits(normal) - (small ? float_from_bits(lowest) : 0.0f));
    uint32_t special = magnitude == infinity ? 0x7F800000u | sign : 0x7FFF0000u;
    return float_from_bits(magnitude < infinity ? finite | sign : special);
}
/* E4M3 has no infinity: 0x7F, after the largest number, is NaN. */
XGSW_SHARED float e4m3_widen(uint8_t value)
{
    return (value & 0x7Fu) == 0x7Fu ? float_from_bits(0x7FFF0000u) : fp8_widen_format(value, 3, 7, 0x7Fu);
}
XGSW_SHARED float e5m2_widen(uint8_t value) { return fp8_widen_format(value, 2, 15, 0x7Cu); }

XGSW_SHARED uint8_t fp8_round(dtype type, float x) { return type == E4M3 ? e4m3_round(x) : e5m2_round(x); }
XGSW_SHARED float fp8_widen(dtype type, uint8_t value) { return type == E4M3 ? e4m3_widen(value) : e5m2_widen(value); }
XGSW_SHARED float fp8_largest(dtype type) { return type == E4M3 ? 448.0f : 57344.0f; }

/* FP8 tensors of a product. All FP8 tensors are numbered in this order; fp8_format returns the format of one. */
typedef enum { FP8_INPUT, FP8_WEIGHT, FP8_GRADIENT, FP8_KINDS } fp8_kind;
XGSW_SHARED dtype fp8_format(int64_t number) { return number % FP8_KINDS == FP8_GRADIENT ? E5M2 : E4M3; }

/* Returns the bits of |x|. Compared as integers, they have the order of the numbers; infinity and NaN are largest. */
XGSW_SHARED int32_t amax_bits(float x) { return (int32_t)(float_bits(x) & 0x7FFFFFFFu); }

/* Returns the scale for an amax: largest / amax (exact), or the largest power of two that is not above it. Outside
 * 2^-100 to 2^100 the nearer bound is the scale in both cases. Amax 0 gives 1; infinity and NaN give NaN. In both
 * formats the largest number is 1.75 times a power of two. */
XGSW_SHARED float fp8_scale_of(dtype type, int32_t amax, bool exact)
{
    uint32_t bits = (uint32_t)amax, largest = float_bits(fp8_largest(type));
    int32_t exponent = (int32_t)(largest >> 23) - (int32_t)(bits >> 23) - ((bits & 0x7FFFFFu) > 0x600000u ? 1 : 0);
    int32_t bounded = exponent > 100 ? 100 : exponent < -100 ? -100 : exponent;
    float power = float_from_bits((uint32_t)(127 + bounded) << 23);
    float scale = exact && bounded == exponent ? fp8_largest(type) / float_from_bits(bits) : power;
    return bits >= 0x7F800000u ? float_from_bits(0x7FFF0000u) : bits == 0 ? 1.0f : scale;
}
