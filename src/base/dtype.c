/* Number formats: one row each. */
#include "base/dtype.h"

static const struct {
    size_t bytes;
    const char *name;
} rows[DTYPES] = {
    [F32] = { 4, "f32" }, [BF16] = { 2, "bf16" }, [F64] = { 8, "f64" }, [I32] = { 4, "i32" }, [U64] = { 8, "u64" },
};

size_t dtype_bytes(dtype type) { return rows[type].bytes; }
const char *dtype_name(dtype type) { return rows[type].name; }
