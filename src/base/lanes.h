/* Vectors of floats, one register long, for sums that not every compiler vectorizes. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Tests whether the compiler defines a macro as 1. An undefined macro expands to its own, longer name. */
#define TEXT_OF(macro) #macro
#define IS_DEFINED(macro) (sizeof TEXT_OF(macro) == sizeof "1")

enum { VECTOR_FLOATS = IS_DEFINED(__AVX512F__) ? 16 : IS_DEFINED(__AVX__) ? 8 : 4 };
typedef float lanes __attribute__((vector_size(VECTOR_FLOATS * sizeof(float))));

/* Loads n numbers; the other lanes are 0. */
static inline lanes lanes_load(const float *from, int64_t n)
{
    lanes x = { 0.0f };
    memcpy(&x, from, (size_t)n * sizeof *from);
    return x;
}

static inline void lanes_store(float *to, lanes x, int64_t n) { memcpy(to, &x, (size_t)n * sizeof *to); }

/* Returns a b + c, rounded once. Without simdlen, gcc tuned for Intel would split an AVX-512 vector. */
static inline lanes lanes_fma(lanes a, lanes b, lanes c)
{
    float x[VECTOR_FLOATS], y[VECTOR_FLOATS], sum[VECTOR_FLOATS];
    lanes_store(x, a, VECTOR_FLOATS), lanes_store(y, b, VECTOR_FLOATS), lanes_store(sum, c, VECTOR_FLOATS);
#pragma omp simd simdlen(VECTOR_FLOATS)
    for (int i = 0; i < VECTOR_FLOATS; i++) sum[i] = fmaf(x[i], y[i], sum[i]);
    return lanes_load(sum, VECTOR_FLOATS);
}

/* Adds the lanes in order, as gcc does at the end of an `omp simd` reduction. */
static inline float lanes_sum(lanes x)
{
    float sum = 0.0f;
    for (int i = 0; i < VECTOR_FLOATS; i++) sum += x[i];
    return sum;
}
