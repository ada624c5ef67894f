/* In place of src/machine/cuda/kernels/ptx.cuh: the same functions. What a warp does together is computed once all its
 * lanes are there; an asynchronous copy leaves NaN until its thread waits; exp2_fast errs by as much as the instruction
 * may.
 */
#pragma once
#include "base/fp8.h"
#include "base/numeric.h"
#include "machine/cuda/kernels/launch.cuh"
#include <map>
#include <vector>

#define UNROLL
#define UNROLL_TWICE
#define NO_UNROLL

static inline void emulator_aligned(const void *p, const char *what)
{
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) emulator_fail("%s: address %p is not a multiple of 16", what, p);
}

/* ---- mma.m16n8k16: lane 4 g + t holds of each 8 x 8 quarter row g, elements 2 t and 2 t + 1 (of the right operand:
 * column g) ---- */

struct emulator_mma_lane {
    float c[4];
    uint32_t a[4], b[2];
};

static inline float emulator_half(uint32_t pair, int high) { return bf16_widen((uint16_t)(pair >> (16 * high))); }

/* Products of 16 elements are added in double, so that no order of the sums is taken for the instruction's. */
__attribute__((no_sanitize("address", "undefined"))) static void emulator_mma(void *lanes)
{
    emulator_mma_lane *lane = static_cast<emulator_mma_lane *>(lanes);
    double sum[16][8];
    float left[16][16], right[16][8];
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            left[row][k] = emulator_half(lane[row % 8 * 4 + k % 8 / 2].a[k / 8 * 2 + row / 8], k % 2);
    for (int k = 0; k < 16; k++)
        for (int column = 0; column < 8; column++)
            right[k][column] = emulator_half(lane[column * 4 + k % 8 / 2].b[k / 8], k % 2);
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < 8; column++)
            sum[row][column] = lane[row % 8 * 4 + column / 2].c[row / 8 * 2 + column % 2];
        for (int k = 0; k < 16; k++)
            for (int column = 0; column < 8; column++) sum[row][column] += (double)left[row][k] * right[k][column];
    }
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 8; column++)
            lane[row % 8 * 4 + column / 2].c[row / 8 * 2 + column % 2] = (float)sum[row][column];
}

static inline void mma_bf16(float *c, const uint32_t *a, const uint32_t *b)
{
    emulator_mma_lane own = { { c[0], c[1], c[2], c[3] }, { a[0], a[1], a[2], a[3] }, { b[0], b[1] } };
    emulator_warp_combine(&own, sizeof own, emulator_mma, EMULATOR_HERE("mma"));
    memcpy(c, own.c, sizeof own.c);
}

/* ---- ldmatrix ---- */

struct emulator_matrix_lane {
    const uint16_t *row;
    uint32_t to[4];
};

static inline void emulator_load_matrices(void *lanes)
{
    emulator_matrix_lane *lane = static_cast<emulator_matrix_lane *>(lanes);
    for (int l = 0; l < WARP; l++)
        for (int m = 0; m < 4; m++) memcpy(&lane[l].to[m], lane[m * 8 + l / 4].row + l % 4 * 2, 4);
}

static inline void emulator_load_transposed(void *lanes)
{
    emulator_matrix_lane *lane = static_cast<emulator_matrix_lane *>(lanes);
    for (int l = 0; l < WARP; l++)
        for (int m = 0; m < 4; m++) {
            const emulator_matrix_lane *first = &lane[m * 8 + l % 4 * 2];
            lane[l].to[m] = first[0].row[l / 4] | (uint32_t)first[1].row[l / 4] << 16;
        }
}

static inline void emulator_ldmatrix(uint32_t *to, const void *row, void (*load)(void *), emulator_site site)
{
    emulator_matrix_lane own = { static_cast<const uint16_t *>(row), {} };
    emulator_aligned(row, "ldmatrix");
    emulator_warp_combine(&own, sizeof own, load, site);
    memcpy(to, own.to, sizeof own.to);
}

static inline void load_matrices(uint32_t *to, const void *row)
{
    emulator_ldmatrix(to, row, emulator_load_matrices, EMULATOR_HERE("ldmatrix"));
}

static inline void load_matrices_transposed(uint32_t *to, const void *row)
{
    emulator_ldmatrix(to, row, emulator_load_transposed, EMULATOR_HERE("ldmatrix.trans"));
}

/* ---- cp.async ---- */

struct emulator_copy {
    void *shared;
    const void *global;
    bool held, committed;
};

/* The copies under way of the thread that runs. */
static inline std::vector<emulator_copy> &emulator_copies(void)
{
    static std::map<uint64_t, std::vector<emulator_copy>> all;
    uint64_t block = ((uint64_t)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    return all[block * blockDim.x + threadIdx.x];
}

static inline void copy_async(void *shared, const void *global, bool held)
{
    emulator_aligned(shared, "cp.async");
    emulator_aligned(global, "cp.async");
    memset(shared, 0xFF, 16);
    emulator_copies().push_back({ shared, global, held, false });
}

static inline void copy_async_commit(void)
{
    for (emulator_copy &copy : emulator_copies()) copy.committed = true;
}

static inline void copy_async_wait(void)
{
    std::vector<emulator_copy> later;
    for (const emulator_copy &copy : emulator_copies())
        if (!copy.committed) later.push_back(copy);
        else if (copy.held) memcpy(copy.shared, copy.global, 16);
        else memset(copy.shared, 0, 16);
    emulator_copies() = later;
}

/* ---- one thread's arithmetic ---- */

static inline float exp2_fast(float x)
{
    float y = exp2f(x), error = 0x1p-22f * y;
    if (x == floorf(x) || !(y >= 0x1p-126f)) return y >= 0x1p-126f || y != y ? y : 0.0f;
    return float_bits(x) & 1u ? y + error : y - error;
}

static inline uint16_t round_bf16(float x) { return bf16_round(x); }
static inline uint32_t pack_bf16(float low, float high) { return bf16_round(low) | (uint32_t)bf16_round(high) << 16; }

static inline uint16_t pack_e4m3(float low, float high) { return uint16_t(e4m3_round(low) | e4m3_round(high) << 8); }
static inline uint16_t pack_e5m2(float low, float high) { return uint16_t(e5m2_round(low) | e5m2_round(high) << 8); }
static inline uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selector)
{
    uint64_t both = a | (uint64_t)b << 32, bytes = 0;
    for (int i = 0; i < 4; i++) bytes |= (both >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    return (uint32_t)bytes;
}

/* Does not wait: a block runs in one go here, and the host only before and after it. */
static inline void wait_for_host(int *) {}
