/* All PTX: one function per instruction. The tests' emulator replaces this file. All 32 lanes of a warp must call mma
 * and ldmatrix together. */
#pragma once
#include "base/fp8.h"
#include "machine/cuda/kernels/launch.cuh"
#include <nv/target>

#define UNROLL _Pragma("unroll")
#define UNROLL_TWICE _Pragma("unroll 2")
#define NO_UNROLL _Pragma("unroll 1")

/* c[16, 8] += a[16, 16] b[16, 8], BF16 with FP32 sums (PTX ISA, mma.m16n8k16: fragment layouts). */
static __device__ __forceinline__ void mma_bf16(float *c, const uint32_t *a, const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane l passes row l % 8 of matrix l / 8 (16 aligned
 * bytes). From each matrix it gets elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4; transposed: of column l / 4. */
static __device__ __forceinline__ void load_matrices(uint32_t *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ __forceinline__ void load_matrices_transposed(uint32_t *to, const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Copies 16 aligned bytes from global to shared memory, or zeros. Usable after commit, wait and a barrier. */
static __device__ __forceinline__ void copy_async(void *shared, const void *global, bool exists)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(shared)), "l"(__cvta_generic_to_global(global)),
                   "r"(exists ? 16 : 0)
                 : "memory");
}

static __device__ __forceinline__ void copy_async_commit(void)
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

/* Waits for this thread's committed copies. */
static __device__ __forceinline__ void copy_async_wait(void) { asm volatile("cp.async.wait_group 0;" : : : "memory"); }

/* Returns 2^x, relative error below 2^-22 (PTX ISA, ex2.approx). Returns 0 for -infinity and subnormal results. */
static __device__ __forceinline__ float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Returns the same bits as bf16_round (base/numeric.h) for every float, including NaN. */
static __device__ __forceinline__ uint16_t round_bf16(float x)
{
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

/* Rounds two floats to BF16, the first in the low half. */
static __device__ __forceinline__ uint32_t pack_bf16(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

/* Round two floats to FP8, the first in the low byte. Bits are those of e4m3_round and e5m2_round (base/fp8.h), also
 * for NaN. Compute capabilities below 8.9 call these functions. */
static __device__ __forceinline__ uint16_t pack_e4m3(float low, float high)
{
    uint16_t both;
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_89,
                      (asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
                           : "=h"(both)
                           : "f"(high), "f"(low));),
                      (both = (uint16_t)(e4m3_round(low) | e4m3_round(high) << 8);))
    return both;
}

static __device__ __forceinline__ uint16_t pack_e5m2(float low, float high)
{
    uint16_t both;
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_89,
                      (asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
                           : "=h"(both)
                           : "f"(high), "f"(low));),
                      (both = (uint16_t)(e5m2_round(low) | e5m2_round(high) << 8);))
    return both;
}

/* Selects four of bytes 0 .. 3 (a) and 4 .. 7 (b). Each hex digit of the selector selects one, the lowest first. */
static __device__ __forceinline__ uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector)
{
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "r"(selector));
    return bytes;
}

/* Waits until the host writes a nonzero number. Reads it at most once per microsecond. */
static __device__ __forceinline__ void wait_for_host(int *flag)
{
    while (*static_cast<volatile int *>(flag) == 0) __nanosleep(1000);
}
