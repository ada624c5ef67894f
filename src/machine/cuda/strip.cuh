/* Strips: neighbouring elements of either format that one thread moves at a time, in 16-byte packs where there are eight. */
#pragma once
#include "machine/cuda/element.cuh"

enum { STRIP = 8 };

template <typename type, int length> struct alignas(length == STRIP ? 16 : sizeof(type)) strip { type of[length]; };

template <int length, typename type> static __device__ __forceinline__ strip<type, length> strip_load(const type *from)
{
    return *reinterpret_cast<const strip<type, length> *>(from);
}

template <typename type, int length> static __device__ __forceinline__ void strip_store(type *to, const strip<type, length> &x)
{
    *reinterpret_cast<strip<type, length> *>(to) = x;
}

static inline int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }
