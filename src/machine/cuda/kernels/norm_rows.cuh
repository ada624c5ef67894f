/* Rows of a norm's matrices, which a block holds in registers: each element is read once and written once. Rows of
 * mixed formats, odd length or alignment take plain kernels. */
#pragma once
#include "machine/cuda/kernels/element.cuh"
#include "machine/cuda/kernels/kernels.h"

enum { LARGEST_BLOCK = 1024, PLAIN_THREADS = 256 };

struct warp_sums {
    float of[WARP];
};

/* This thread's packs of a row of n columns: every blockDim-th one; zeros beyond the end. */
template <typename type> static __device__ __forceinline__ pack<type> fetch_one(const tensor &t, int row, int n, int k)
{
    const pack<type> *from =
        reinterpret_cast<const pack<type> *>(static_cast<const type *>(t.data) + row * t.stride[0]);
    int at = threadIdx.x + k * blockDim.x;
    return at < n / pack<type>::LENGTH ? from[at] : pack<type>{};
}

template <typename type, int PACKS>
static __device__ __forceinline__ void fetch(pack<type> (&to)[PACKS], const tensor &t, int row, int n)
{
    for (int k = 0; k < PACKS; k++) to[k] = fetch_one<type>(t, row, n, k);
}

template <typename type, int PACKS>
static __device__ __forceinline__ void store(const tensor &t, int row, int n, const pack<type> (&from)[PACKS])
{
    pack<type> *to = reinterpret_cast<pack<type> *>(static_cast<type *>(t.data) + row * t.stride[0]);
    for (int k = 0; k < PACKS; k++) {
        int at = threadIdx.x + k * blockDim.x;
        if (at < n / pack<type>::LENGTH) to[at] = from[k];
    }
}

/* The floats of an operand, NULL of an absent one, whatever it holds. */
static inline float *floats_of(const tensor &t) { return t.dims > 0 ? static_cast<float *>(t.data) : NULL; }

/* Matrices of one format, in packs. An absent operand is like the others. */
static inline bool uniform(const tensor *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i].dims > 2 ||
            (all[i].dims > 0 && (all[i].type != all[0].type || !packs(all[i], all[0].type == BF16 ? 8 : 4))))
            return false;
    return true;
}
