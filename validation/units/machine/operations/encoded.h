/* The FP8 results of one way of computing them. */
#pragma once
#include "operations.h"

typedef enum { CODES = 1, TRANSPOSED = 2, AMAX = 4, COUNTS = 8, PARTS = 16 } part;

typedef struct {
    sample codes, transposed;
    float *scale;
    int32_t *amax;
    uint64_t *counts;
} encoded;

/* values [.., n]; groups 0: the transposed copy is one matrix. */
static inline encoded encoded_open(tensor values, int64_t groups, dtype type, float scale, int32_t amax)
{
    int64_t n = values.dim[values.dims - 1], m = tensor_elements(&values) / n;
    tensor t = fp8_transposed_shape(type, groups, groups ? m / groups : m, n);
    encoded e = { .codes = sample_open(type, 0, values.dims, values.dim),
                  .transposed = sample_open(type, 0, t.dims, t.dim),
                  .scale = taken(FP8_FACTORS, sizeof(float)),
                  .amax = taken(1, sizeof(int32_t)),
                  .counts = taken(FP8_COUNTS, sizeof(uint64_t)) };
    fp8_set_factors(e.scale, scale);
    e.codes.t.scale = e.transposed.t.scale = e.scale;
    *e.amax = amax;
    for (uint64_t i = 0; i < FP8_COUNTS; i++) e.counts[i] = i + 1;
    return e;
}

static inline encoding encoding_of(const encoded *e, int parts)
{
    encoding to = { .codes = parts & CODES ? e->codes.t : tensor_none(),
                    .transposed = parts & TRANSPOSED ? e->transposed.t : tensor_none() };
    if (parts & AMAX) to.amax = tensor_1d(e->amax, I32, 1);
    if (parts & COUNTS) to.counts = tensor_1d(e->counts, U64, FP8_COUNTS);
    return to;
}

static inline void encoded_compare(const char *name, const encoded *a, const encoded *b)
{
    if (memcmp(a->codes.memory, b->codes.memory, a->codes.bytes)) fail_msg("%s: other codes", name);
    if (memcmp(a->transposed.memory, b->transposed.memory, a->transposed.bytes))
        fail_msg("%s: other transposed codes", name);
    assert_int_equal(*a->amax, *b->amax);
    assert_memory_equal(a->counts, b->counts, FP8_COUNTS * sizeof *a->counts);
}
