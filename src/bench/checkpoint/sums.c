/* Sums of bits. */
#include "bench/checkpoint/sums.h"
#include "base/fail.h"

typedef struct {
    uint64_t bits, places;
} partial;

/* Places count from 0 here: they fit 32 bits, so that a product is one instruction. */
static partial of_words(const uint32_t *x, int64_t count)
{
    uint64_t bits = 0, places = 0;
#pragma omp simd reduction(+ : bits, places)
    for (int64_t i = 0; i < count; i++) {
        bits += x[i];
        places += (uint64_t)(uint32_t)i * x[i];
    }
    return (partial){ bits, places };
}

static partial of_halves(const uint16_t *x, int64_t count)
{
    uint64_t bits = 0, places = 0;
#pragma omp simd reduction(+ : bits, places)
    for (int64_t i = 0; i < count; i++) {
        bits += x[i];
        places += (uint64_t)(uint32_t)i * x[i];
    }
    return (partial){ bits, places };
}

void bits_add(const void *x, size_t bytes, int64_t count, int64_t first, uint64_t sum[SUMS])
{
    if (bytes != 2 && bytes != 4) FAIL("no sum of elements of %zu bytes", bytes);
    partial p = bytes == 4 ? of_words(x, count) : of_halves(x, count);
    sum[SUM_BITS] += p.bits;
    sum[SUM_PLACES] += p.places + (uint64_t)(first + 1) * p.bits;
}
