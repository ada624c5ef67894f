/* What kernels share: elements of either format, rows of views, sums over a warp and a block. */
#pragma once
#include "base/numeric.h"
#include "machine/cuda/launch.cuh"

struct bf16 { uint16_t bits; };

static __device__ __forceinline__ float widen(float x) { return x; }
static __device__ __forceinline__ float widen(bf16 x) { return bf16_widen(x.bits); }
static __device__ __forceinline__ void narrow(float &to, float x) { to = x; }
static __device__ __forceinline__ void narrow(bf16 &to, float x) { to.bits = bf16_round(x); }

/* Sixteen bytes of elements, moved at once. */
template <typename type> struct alignas(16) pack {
    enum { LENGTH = 16 / sizeof(type) };
    type of[LENGTH];
};

/* The first element of row `row` of a view, all dims but the last counted as one; fewer than 2^32 rows. Dims are indexed by
 * constants: a parameter indexed otherwise is copied to the stack. */
template <typename type> static __device__ __forceinline__ type *row_of(const tensor &t, int64_t row)
{
    uint32_t at = static_cast<uint32_t>(row);
    int64_t offset = 0;
#pragma unroll
    for (int i = TENSOR_DIMS - 2; i > 0; i--)
        if (i < t.dims - 1) {
            uint32_t length = static_cast<uint32_t>(t.dim[i]), above = at / length;
            offset += (at - above * length) * t.stride[i];
            at = above;
        }
    return static_cast<type *>(t.data) + offset + (t.dims > 1 ? at * t.stride[0] : 0);
}

static inline int64_t columns_of(const tensor &t) { return t.dim[t.dims - 1]; }
static inline int64_t elements_of(const tensor &t)
{
    int64_t n = t.dims > 0;
    for (int i = 0; i < t.dims; i++) n *= t.dim[i];
    return n;
}
static inline int64_t rows_of(const tensor &t) { return t.dims == 1 ? 1 : elements_of(t) / columns_of(t); }

/* May its rows be moved in packs of `length` elements? */
static inline bool packs(const tensor &t, int64_t length)
{
    bool all = reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && columns_of(t) % length == 0;
    for (int i = 0; i < t.dims - 1; i++) all = all && (t.dim[i] == 1 || t.stride[i] % length == 0);
    return all;
}

/* The same value in all lanes, added in an order that does not depend on the lane. */
static __device__ __forceinline__ float warp_sum(float x)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xFFFFFFFFu, x, distance);
    return x;
}

static __device__ __forceinline__ float warp_maximum(float x)
{
    for (int distance = WARP / 2; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, distance));
    return x;
}

/* The block's sum in all threads; `partial` is a float for each warp in shared memory. A barrier before and after. */
static __device__ __forceinline__ float block_sum(float x, float *partial)
{
    int warps = blockDim.x / WARP;
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = x;
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < warps; i++) sum += partial[i];
    return sum;
}

/* Calls body(first{}, ...) with the C++ types of formats: with_type(dtype, [&](auto zero) { using type = decltype(zero); ... }). */
template <typename body_type> static inline void with_type(dtype format, body_type body)
{
    if (format == BF16) body(bf16{});
    else body(0.0f);
}
