/* Rotary positions: half-split pairs (x[i], x[i + d/2]) turn by the angles of their position (Su et al. 2021). A block
 * turns all rows of one position, so the angles come from the cache; a thread has a pack of either half in flight.
 * Memory: x read and written once, [8192, 1, 32, 128] BF16 134 MB by 8192 blocks of 256 threads. */
#include "machine/cuda/kernels/element.cuh"
#include "machine/cuda/kernels/kernels.h"

enum { THREADS = 256 };

struct pair {
    float a, b;
};

static __device__ __forceinline__ pair turned(pair x, float cosine, float sine)
{
    return { fmaf(x.a, cosine, -(x.b * sine)), fmaf(x.b, cosine, x.a * sine) };
}

/* Where the row of this batch row and head begins; the block's number is the position. */
template <typename type> static __device__ __forceinline__ type *head_of(const tensor &x, int row)
{
    int heads = (int)x.dim[2];
    return static_cast<type *>(x.data) + blockIdx.x * x.stride[0] + row / heads * x.stride[1] +
           row % heads * x.stride[2];
}

template <typename type> KERNEL(THREADS) rope_packs(tensor x, const float *table, float sign)
{
    enum { LENGTH = pack<type>::LENGTH };
    int half = (int)x.dim[3] / 2, packs = half / LENGTH, rows = (int)(x.dim[1] * x.dim[2]);
    const pack<float, 2 *LENGTH> *angles =
        reinterpret_cast<const pack<float, 2 * LENGTH> *>(table + blockIdx.x * (int64_t)(2 * half));
    for (int i = threadIdx.x; i < rows * packs; i += blockDim.x) {
        pack<type> *low = reinterpret_cast<pack<type> *>(head_of<type>(x, i / packs)) + i % packs, *high = low + packs;
        pack<type> a = *low, b = *high;
        pack<float, 2 *LENGTH> angle = angles[i % packs];
        float first[LENGTH], second[LENGTH];
        for (int k = 0; k < LENGTH; k++) {
            pair y = turned({ get(a, k), get(b, k) }, angle.of[2 * k], sign * angle.of[2 * k + 1]);
            first[k] = y.a;
            second[k] = y.b;
        }
        narrow(a, first);
        narrow(b, second);
        *low = a;
        *high = b;
    }
}

template <typename type> KERNEL(THREADS) rope_plain(tensor x, const float *table, float sign)
{
    int half = (int)x.dim[3] / 2, rows = (int)(x.dim[1] * x.dim[2]);
    const float *angles = table + blockIdx.x * (int64_t)(2 * half);
    for (int i = threadIdx.x; i < rows * half; i += blockDim.x) {
        int k = i % half;
        type *low = head_of<type>(x, i / half) + k, *high = low + half;
        pair y = turned({ widen(*low), widen(*high) }, angles[2 * k], sign * angles[2 * k + 1]);
        narrow(*low, y.a);
        narrow(*high, y.b);
    }
}

template <typename type> static void turn(const tensor &x, const tensor &table, float sign, cudaStream_t stream)
{
    const float *angles = static_cast<const float *>(table.data);
    int64_t half = x.dim[3] / 2, rows = x.dim[1] * x.dim[2];
    int positions = (int)x.dim[0];
    bool fast =
        packs(x, pack<type>::LENGTH) && half % pack<type>::LENGTH == 0 && reinterpret_cast<uintptr_t>(angles) % 16 == 0;
    int threads = threads_for(rows * half / (fast ? pack<type>::LENGTH : 1), THREADS);
    if (fast) LAUNCH(rope_packs<type>, positions, threads, 0, stream, x, angles, sign);
    else LAUNCH(rope_plain<type>, positions, threads, 0, stream, x, angles, sign);
}

static void rotate(const cuda_call *c, float sign)
{
    with_type(c->x[0].type, [&](auto zero) { turn<decltype(zero)>(c->x[0], c->x[1], sign, c->stream); });
}

void cuda_rope_forward(const cuda_call *c) { rotate(c, 1.0f); }
void cuda_rope_backward(const cuda_call *c) { rotate(c, -1.0f); }
