/* Shared by the kernels: elements, packs of 16 bytes, rows of views, and sums over warps and blocks. */
#pragma once
#include "base/numeric.h"
#include "machine/cuda/kernels/ptx.cuh"

struct bf16 {
    uint16_t bits;
};

static __device__ __forceinline__ float widen(float x) { return x; }
static __device__ __forceinline__ float widen(bf16 x) { return bf16_widen(x.bits); }
static __device__ __forceinline__ void narrow(float &to, float x) { to = x; }
static __device__ __forceinline__ void narrow(bf16 &to, float x) { to.bits = round_bf16(x); }

/* Elements that are moved at once: those in 16 bytes. In a conversion, as many as the narrower format has in 16 bytes.
 * BF16 stays in pairs, so that two elements share a register. */
template <typename type, int length = 16 / sizeof(type)> struct alignas(16) pack {
    enum { LENGTH = length };
    type of[length];
};
template <int length> struct alignas(16) pack<bf16, length> {
    enum { LENGTH = length };
    uint32_t pair[length / 2];
};

template <int length> static __device__ __forceinline__ float get(const pack<float, length> &x, int i)
{
    return x.of[i];
}
template <int length> static __device__ __forceinline__ float get(const pack<bf16, length> &x, int i)
{
    return float_from_bits(i % 2 ? x.pair[i / 2] & 0xFFFF0000u : x.pair[i / 2] << 16);
}

/* Rounds a whole pack. BF16 is rounded in pairs: half an instruction per element, instead of seven in bf16_round. */
template <int length> static __device__ __forceinline__ void narrow(pack<float, length> &to, const float (&x)[length])
{
    for (int i = 0; i < length; i++) to.of[i] = x[i];
}
template <int length> static __device__ __forceinline__ void narrow(pack<bf16, length> &to, const float (&x)[length])
{
    for (int i = 0; i < length / 2; i++) to.pair[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
}

XGSW_SHARED int64_t columns_of(const tensor &t)
{
    return t.dims == 4 ? t.dim[3] : t.dims == 3 ? t.dim[2] : t.dims == 2 ? t.dim[1] : t.dim[0];
}
static inline int64_t elements_of(const tensor &t)
{
    int64_t n = t.dims > 0;
    for (int i = 0; i < t.dims; i++) n *= t.dim[i];
    return n;
}
static inline int64_t rows_of(const tensor &t) { return t.dims == 1 ? 1 : elements_of(t) / columns_of(t); }

/* Returns the offset of row `row` of a view, in elements. A row has the last dim; there are fewer than 2^32 rows. Dims
 * are indexed by constants, because the compiler copies a parameter with variable indices to the stack. */
static __device__ __forceinline__ int64_t row_offset(const tensor &t, int64_t row)
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
    return offset + (t.dims > 1 ? at * t.stride[0] : 0);
}

template <typename type> static __device__ __forceinline__ type *row_of(const tensor &t, int64_t row)
{
    return static_cast<type *>(t.data) + row_offset(t, row);
}

/* A row whose format is known only at run time. */
struct line {
    void *data;
    dtype type;
};
static __device__ __forceinline__ line line_of(const tensor &t, int64_t row)
{
    int64_t offset = row_offset(t, row) * (t.type == BF16 ? (int64_t)sizeof(bf16) : (int64_t)sizeof(float));
    return { static_cast<char *>(t.data) + offset, t.type };
}
static __device__ __forceinline__ float get(const line &x, int64_t i)
{
    return x.type == BF16 ? widen(static_cast<bf16 *>(x.data)[i]) : static_cast<float *>(x.data)[i];
}
static __device__ __forceinline__ void put(const line &x, int64_t i, float value)
{
    if (x.type == BF16) narrow(static_cast<bf16 *>(x.data)[i], value);
    else static_cast<float *>(x.data)[i] = value;
}

/* Returns the view with neighbouring dims merged where strides allow, except the last. Most views become matrices, in
 * which the address of a row needs no division. */
static inline tensor merged(tensor t)
{
    for (int i = t.dims - 2; i > 0; i--) {
        if (t.dim[i - 1] != 1 && t.dim[i] != 1 && t.stride[i - 1] != t.dim[i] * t.stride[i]) continue;
        if (t.dim[i] != 1) t.stride[i - 1] = t.stride[i];
        t.dim[i - 1] *= t.dim[i];
        for (int k = i; k < t.dims - 1; k++) t.dim[k] = t.dim[k + 1], t.stride[k] = t.stride[k + 1];
        t.dims--;
    }
    return t;
}

static inline bool contiguous(const tensor &t)
{
    int64_t stride = 1;
    for (int i = t.dims - 1; i >= 0; stride *= t.dim[i--])
        if (t.dim[i] != 1 && t.stride[i] != stride) return false;
    return true;
}

/* Returns whether rows can be moved in packs of `length` elements. */
static inline bool packs(const tensor &t, int64_t length)
{
    bool all = reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && columns_of(t) % length == 0;
    for (int i = 0; i < t.dims - 1; i++) all = all && (t.dim[i] == 1 || t.stride[i] % length == 0);
    return all;
}

/* Returns how many parts of size `part` cover n. */
XGSW_SHARED int64_t parts_of(int64_t n, int64_t part) { return (n + part - 1) / part; }

/* Returns `wanted` rounded up to whole warps, but at most `largest`. */
static inline int threads_for(int64_t wanted, int largest)
{
    int64_t threads = parts_of(wanted, WARP) * WARP;
    return threads < largest ? (int)threads : largest;
}

/* Returns the warp's sum in all lanes. The order of addition does not depend on the lane. */
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

/* Returns the block's sum in all threads. partial: one float per warp in shared memory. Barriers before and after. */
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

/* Calls body with a zero of the format's C++ type: with_type(dtype, [&](auto zero) { ... decltype(zero) ... }). */
template <typename body_type> static inline void with_type(dtype format, body_type body)
{
    if (format == BF16) body(bf16{});
    else body(0.0f);
}
