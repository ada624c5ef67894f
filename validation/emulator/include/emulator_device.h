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
    EMULATOR_ATOMIC_ACCESS(atomicMax(type *p, type x), type, was > x ? was : x)
EMULATOR_ATOMIC(int)
EMULATOR_ATOMIC(unsigned)
EMULATOR_ATOMIC(unsigned long long)

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
