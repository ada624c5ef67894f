/* The part of CUDA's C++ that kernels use: qualifiers, thread indices, barriers, shuffles, votes, intrinsics. A barrier
 * records the calling line, to find threads that wait at different barriers. */
#pragma once
#include "emulator.h"
#include <cassert>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <sanitizer/asan_interface.h>
#include <type_traits>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))
/* Puts nops before the kernel's entry, one for each warp that a block may have. The emulator counts them. */
#define __launch_bounds__(threads, ...) __attribute__((patchable_function_entry((threads) / 32, (threads) / 32)))

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
enum { warpSize = 32 };

#define EMULATOR_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(EMULATOR_SITE) { emulator_block_barrier({ "__syncthreads", file, line }); }

inline void emulator_full_mask(unsigned mask, const char *what, const char *file, int line)
{
    if (mask != 0xFFFFFFFFu)
        emulator_fail("%s at %s:%d: mask %08x is not that of the whole warp", what, file, line, mask);
}

inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, EMULATOR_SITE)
{
    emulator_full_mask(mask, "__syncwarp", file, line);
    emulator_warp_barrier({ "__syncwarp", file, line });
}

template <typename type>
inline const type *emulator_lanes(unsigned mask, type x, const char *what, const char *file, int line)
{
    static_assert(std::is_arithmetic<type>::value && (sizeof(type) == 4 || sizeof(type) == 8),
                  "shuffles take 4 or 8 bytes");
    emulator_full_mask(mask, what, file, line);
    return static_cast<const type *>(emulator_warp_gather(&x, sizeof x, { what, file, line }));
}

template <typename type> inline type __shfl_sync(unsigned mask, type x, int source, int width = 32, EMULATOR_SITE)
{
    int lane = int(threadIdx.x % 32);
    return emulator_lanes(mask, x, "__shfl_sync", file, line)[(lane & ~(width - 1)) | (source & (width - 1))];
}

template <typename type> inline type __shfl_xor_sync(unsigned mask, type x, int distance, int width = 32, EMULATOR_SITE)
{
    int lane = int(threadIdx.x % 32), from = lane ^ distance, end = (lane | (width - 1)) + 1;
    return emulator_lanes(mask, x, "__shfl_xor_sync", file, line)[from < end ? from : lane];
}

template <typename type>
inline type __shfl_up_sync(unsigned mask, type x, unsigned distance, int width = 32, EMULATOR_SITE)
{
    int lane = int(threadIdx.x % 32), from = lane - int(distance);
    return emulator_lanes(mask, x, "__shfl_up_sync", file, line)[from >= (lane & ~(width - 1)) ? from : lane];
}

template <typename type>
inline type __shfl_down_sync(unsigned mask, type x, unsigned distance, int width = 32, EMULATOR_SITE)
{
    int lane = int(threadIdx.x % 32), from = lane + int(distance);
    return emulator_lanes(mask, x, "__shfl_down_sync", file, line)[from <= (lane | (width - 1)) ? from : lane];
}

inline unsigned emulator_ballot(unsigned mask, int x, const char *what, const char *file, int line)
{
    const int *all = emulator_lanes(mask, x, what, file, line);
    unsigned votes = 0;
    for (int i = 0; i < 32; i++) votes |= unsigned(all[i] != 0) << i;
    return votes;
}

inline unsigned __ballot_sync(unsigned mask, int x, EMULATOR_SITE)
{
    return emulator_ballot(mask, x, "__ballot_sync", file, line);
}
inline int __any_sync(unsigned mask, int x, EMULATOR_SITE)
{
    return emulator_ballot(mask, x, "__any_sync", file, line) != 0;
}
inline int __all_sync(unsigned mask, int x, EMULATOR_SITE)
{
    return emulator_ballot(mask, x, "__all_sync", file, line) == 0xFFFFFFFFu;
}

#define EMULATOR_REDUCE(name, type, start, expression)                                                                 \
    inline type name(unsigned mask, type x, EMULATOR_SITE)                                                             \
    {                                                                                                                  \
        const type *all = emulator_lanes(mask, x, #name, file, line);                                                  \
        type a = start;                                                                                                \
        for (int i = 0; i < 32; i++) {                                                                                 \
            type b = all[i];                                                                                           \
            a = expression;                                                                                            \
        }                                                                                                              \
        return a;                                                                                                      \
    }
EMULATOR_REDUCE(__reduce_add_sync, unsigned, 0, a + b)
EMULATOR_REDUCE(__reduce_add_sync, int, 0, int(unsigned(a) + unsigned(b)))
EMULATOR_REDUCE(__reduce_max_sync, unsigned, all[0], a > b ? a : b)
EMULATOR_REDUCE(__reduce_max_sync, int, all[0], a > b ? a : b)
EMULATOR_REDUCE(__reduce_min_sync, unsigned, all[0], a < b ? a : b)
EMULATOR_REDUCE(__reduce_min_sync, int, all[0], a < b ? a : b)
EMULATOR_REDUCE(__reduce_or_sync, unsigned, 0, a | b)
EMULATOR_REDUCE(__reduce_and_sync, unsigned, ~0u, a &b)

/* Fails if the address sanitizer would. */
inline void emulator_touchable(const void *p, size_t bytes)
{
    if (__asan_region_is_poisoned(const_cast<void *>(p), bytes))
        emulator_fail("an atomic operation at %p, which is poisoned", p);
}

/* Only one thread runs at a time, so this is atomic. It does not count as an access without a barrier. Floats are
 * excluded, because the order of their sums would be random. */
#define EMULATOR_ATOMIC_ACCESS(name, type, result)                                                                     \
    __attribute__((noinline, unused, no_sanitize("address", "thread"))) static type name                               \
    {                                                                                                                  \
        emulator_touchable(p, sizeof *p);                                                                              \
        type was = *p;                                                                                                 \
        *p = result;                                                                                                   \
        return was;                                                                                                    \
    }
#define EMULATOR_ATOMIC(type)                                                                                          \
    EMULATOR_ATOMIC_ACCESS(atomicAdd(type *p, type x), type, was + x)                                                  \
    EMULATOR_ATOMIC_ACCESS(atomicMax(type *p, type x), type, was > x ? was : x)                                        \
    EMULATOR_ATOMIC_ACCESS(atomicMin(type *p, type x), type, was < x ? was : x)                                        \
    EMULATOR_ATOMIC_ACCESS(atomicOr(type *p, type x), type, was | x)                                                   \
    EMULATOR_ATOMIC_ACCESS(atomicAnd(type *p, type x), type, was &x)                                                   \
    EMULATOR_ATOMIC_ACCESS(atomicExch(type *p, type x), type, x)                                                       \
    EMULATOR_ATOMIC_ACCESS(atomicCAS(type *p, type old, type x), type, was == old ? x : was)
EMULATOR_ATOMIC(int)
EMULATOR_ATOMIC(unsigned)
EMULATOR_ATOMIC(unsigned long long)

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __trap() { emulator_fail("__trap"); }

template <typename type> inline type __ldg(const type *p) { return *p; }
template <typename type> inline type __ldcg(const type *p) { return *p; }
template <typename type> inline type __ldcs(const type *p) { return *p; }
template <typename type> inline void __stcg(type *p, type x) { *p = x; }
template <typename type> inline void __stcs(type *p, type x) { *p = x; }

template <typename to, typename from> inline to emulator_bits(from x)
{
    static_assert(sizeof(to) == sizeof(from), "same size");
    to y;
    memcpy(&y, &x, sizeof y);
    return y;
}
inline unsigned __float_as_uint(float x) { return emulator_bits<unsigned>(x); }
inline int __float_as_int(float x) { return emulator_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return emulator_bits<float>(x); }
inline float __int_as_float(int x) { return emulator_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emulator_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emulator_bits<double>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned((uint64_t(x) * y) >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y)
{
    return (unsigned long long)(((unsigned __int128)x * y) >> 64);
}

inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
inline float __double2float_rn(double x) { return float(x); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }
inline double __ll2double_rn(long long x) { return double(x); }
inline double __ull2double_rn(unsigned long long x) { return double(x); }
inline int __float2int_rn(float x) { return int(rintf(x)); }
inline long long __double2ll_rn(double x) { return (long long)rint(x); }
inline int __float2int_rz(float x) { return int(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }

#define EMULATOR_EXTREMES(type)                                                                                        \
    inline type min(type x, type y) { return x < y ? x : y; }                                                          \
    inline type max(type x, type y) { return x > y ? x : y; }
EMULATOR_EXTREMES(int)
EMULATOR_EXTREMES(unsigned)
EMULATOR_EXTREMES(long)
EMULATOR_EXTREMES(unsigned long)
EMULATOR_EXTREMES(long long)
EMULATOR_EXTREMES(unsigned long long)
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
