/* Number formats and their size. */
#pragma once
#include <stddef.h>

typedef enum { F32, BF16, F64, I32, U64, DTYPES } dtype;

/* Bytes of one element. */
static inline size_t dtype_bytes(dtype type) { return type == BF16 ? 2 : type == F32 || type == I32 ? 4 : 8; }
/* "f32", "bf16", ... */
static inline const char *dtype_name(dtype type)
{
    static const char *const names[DTYPES] = { "f32", "bf16", "f64", "i32", "u64" };
    return names[type];
}
