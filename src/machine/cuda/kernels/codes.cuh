/* Codes of FP8 in registers: four in a word, the first in the lowest byte. */
#pragma once
#include "machine/cuda/kernels/element.cuh"

/* Eight bytes of codes. */
struct __attribute__((may_alias, aligned(8))) code_words {
    uint32_t of[2];
};

static __device__ __forceinline__ uint32_t pack_codes(dtype type, float a, float b, float c, float d)
{
    uint32_t low = type == E4M3 ? pack_e4m3(a, b) : pack_e5m2(a, b);
    uint32_t high = type == E4M3 ? pack_e4m3(c, d) : pack_e5m2(c, d);
    return low | high << 16;
}

static __device__ __forceinline__ code_words pack_codes(dtype type, const float (&x)[8])
{
    return { { pack_codes(type, x[0], x[1], x[2], x[3]), pack_codes(type, x[4], x[5], x[6], x[7]) } };
}

/* The block's largest of what its threads have found joins *amax; `partial` is a number for each warp in shared memory.
 */
static __device__ __forceinline__ void join_amax(int32_t *amax, int32_t own, int32_t *partial)
{
    int32_t most = __reduce_max_sync(0xFFFFFFFFu, own);
    if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = most;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < (int)blockDim.x / WARP; i++) most = most > partial[i] ? most : partial[i];
    atomicMax(amax, most);
}
