/* Number formats and their size. */
#pragma once
#include <stddef.h>

typedef enum { F32, BF16, F64, I32, U64, DTYPES } dtype;

/* Bytes of one element. */
size_t dtype_bytes(dtype type);
/* "f32", "bf16", ... */
const char *dtype_name(dtype type);
