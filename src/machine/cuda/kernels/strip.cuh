/* Strips: neighbouring elements that one thread moves at once. Strips of eight move in 16-byte packs. */
#pragma once
#include "machine/cuda/kernels/element.cuh"

enum { STRIP = 8 };

template <typename type, int length> struct alignas(length == STRIP ? 16 : sizeof(type)) strip {
    type of[length];
};

/* Sixteen bytes of any type. */
struct __attribute__((may_alias, aligned(16))) quad {
    uint32_t of[4];
};

/* Loads the strip that begins at element `at` of a row. */
template <int length, typename type>
static __device__ __forceinline__ strip<type, length> strip_load(const type *row, int64_t at)
{
    return reinterpret_cast<const strip<type, length> *>(row)[at / length];
}

/* Round to the row's format, in pairs. The 16-byte word is assembled explicitly, because nvcc splits other stores into
 * pieces, each of which costs as much as the whole. */
template <typename type> static __device__ __forceinline__ void strip_store(type *row, int64_t at, const float (&x)[1])
{
    narrow(row[at], x[0]);
}

static __device__ __forceinline__ void strip_store(bf16 *row, int64_t at, const float (&x)[STRIP])
{
    quad word;
    for (int i = 0; i < 4; i++) word.of[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
    reinterpret_cast<quad *>(row)[at / 8] = word;
}

static __device__ __forceinline__ void strip_store(float *row, int64_t at, const float (&x)[STRIP])
{
    quad low, high;
    for (int i = 0; i < 4; i++) low.of[i] = float_bits(x[i]), high.of[i] = float_bits(x[i + 4]);
    reinterpret_cast<quad *>(row)[at / 4] = low;
    reinterpret_cast<quad *>(row)[at / 4 + 1] = high;
}
