/* Counter-based random numbers, as src/DEFINITIONS.md defines them. */
#pragma once
#include "base/numeric.h"

/* Returns the 32-bit FNV-1a hash of the bytes of a name. */
XGSW_EXTERN uint32_t fnv1a(const char *name);
/* Returns std / sqrt(8 (65536^2 - 1) / 12), rounded to FP32 once. */
float normal_scale(double std);
/* Returns element `index` of the logical tensor with key fnv1a(name). */
XGSW_SHARED float normal_element(uint32_t seed, uint32_t key, uint64_t index, float scale)
{
    philox_block counter = { { (uint32_t)index, (uint32_t)(index >> 32), 0, 0 } };
    return (float)philox_normal(philox4x32(counter, seed, key)) * scale;
}
