/* Rows of a norm's matrices in the registers of a block. Each element is read once and written once. Plain kernels
 * compute rows of mixed formats, or that cannot be moved in packs. */
#pragma once
#include "machine/cuda/kernels/element.cuh"
#include "machine/cuda/kernels/kernels.h"

enum { LARGEST_BLOCK = 1024, PLAIN_THREADS = 256 };

struct warp_sums {
    float of[WARP];
};

/* Returns this thread's k-th pack of a row of n columns, or zeros beyond the end. Packs alternate between threads. */
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

/* Returns an operand's data as floats, or NULL if it is absent. */
static inline float *floats_of(const tensor &t) { return t.dims > 0 ? static_cast<float *>(t.data) : NULL; }

/* Returns whether all are matrices of one format that can be moved in packs. Absent operands are ignored. */
static inline bool uniform(const tensor *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i].dims > 2 ||
            (all[i].dims > 0 && (all[i].type != all[0].type || !packs(all[i], all[0].type == BF16 ? 8 : 4))))
            return false;
    return true;
}
