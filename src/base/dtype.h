/* Number formats and their size. */
#pragma once
#include <stddef.h>

/* E4M3 and E5M2 are the formats of FP8 values (base/fp8.h). */
typedef enum { F32, BF16, F64, I32, U64, E4M3, E5M2, DTYPES } dtype;

static inline size_t dtype_bytes(dtype type)
{
    static const unsigned char bytes[DTYPES] = { 4, 2, 8, 4, 8, 1, 1 };
    return bytes[type];
}
static inline const char *dtype_name(dtype type)
{
    static const char *const names[DTYPES] = { "f32", "bf16", "f64", "i32", "u64", "e4m3", "e5m2" };
    return names[type];
}
