/* FP8 values in registers: four per word, the first in the lowest byte. */
#pragma once
#include "base/fp8.h"
#include "machine/cuda/kernels/element.cuh"
#include "machine/op/args.h"

struct __attribute__((may_alias, aligned(8))) fp8_words {
    uint32_t of[2];
};

static __device__ __forceinline__ uint32_t pack_fp8(dtype type, float a, float b, float c, float d)
{
    uint32_t low = type == E4M3 ? pack_e4m3(a, b) : pack_e5m2(a, b);
    uint32_t high = type == E4M3 ? pack_e4m3(c, d) : pack_e5m2(c, d);
    return low | high << 16;
}

static __device__ __forceinline__ fp8_words pack_fp8(dtype type, const float (&x)[8])
{
    return { { pack_fp8(type, x[0], x[1], x[2], x[3]), pack_fp8(type, x[4], x[5], x[6], x[7]) } };
}

/* ---- statistics of values that become FP8 ---- */

/* A thread's statistics. counts: values rounded to 0 (low half), saturated (high half). A block has at most 16384. */
struct fp8_statistics {
    int32_t amax;
    uint32_t counts;
};

/* Adds a strip. Values up to half of the smallest FP8 value become zero. If the largest value fits, none saturates. */
template <int length>
static __device__ __forceinline__ void add_statistics(dtype format, fp8_statistics &f, const float (&x)[length],
                                                      const float (&scaled)[length], float scale)
{
    const float underflow_limit = format == E4M3 ? 0x1p-10f : 0x1p-17f, largest = fp8_largest(format);
    int32_t most = 0;
    for (int i = 0; i < length; i++) most = max(most, amax_bits(x[i]));
    for (int i = 0; i < length; i++) f.counts += x[i] != 0.0f && fabsf(scaled[i]) <= underflow_limit ? 1u : 0u;
    f.amax = max(f.amax, most);
    if (float_from_bits((uint32_t)most) * scale <= largest) return;
    for (int i = 0; i < length; i++) f.counts += fabsf(scaled[i]) > largest ? 1u << 16 : 0u;
}

/* Raises *amax to the block's largest `own`. partial: a number for each warp, in shared memory. */
static __device__ __forceinline__ void block_amax(int32_t *amax, int32_t own, int32_t *partial)
{
    int32_t most = __reduce_max_sync(0xFFFFFFFFu, own);
    if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = most;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < (int)blockDim.x / WARP; i++) most = most > partial[i] ? most : partial[i];
    atomicMax(amax, most);
}

/* Adds the block's counts to the operation's. values: all values of the operation. partial: another array as above. */
static __device__ __forceinline__ void block_counts(unsigned long long *counts, uint32_t own, int64_t values,
                                                    uint32_t *partial)
{
    uint32_t sum = __reduce_add_sync(0xFFFFFFFFu, own);
    if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < (int)blockDim.x / WARP; i++) sum += partial[i];
    atomicAdd(counts + FP8_UNDERFLOWS, (unsigned long long)(sum & 0xFFFFu));
    atomicAdd(counts + FP8_SATURATIONS, (unsigned long long)(sum >> 16));
    if (blockIdx.x == 0) atomicAdd(counts + FP8_VALUES, (unsigned long long)values);
}
