/* Two parts of one attention become one (Milakov & Gimelshein 2018): outputs weighted by what their keys hold of the
 * sum. A warp has one position, batch row and head; a head of 128 is one pack a lane. Memory: out read and written,
 * part read, all F32: [8192, 1, 32, 128] 403 MB by 32768 blocks of 8 warps. */
#include "machine/cuda/kernels/element.cuh"
#include "machine/cuda/kernels/kernels.h"

enum { OUT, LSE, PART, PART_LSE, THREADS = 256, WARPS = THREADS / WARP };

struct merge_call {
    tensor out, lse, part, part_lse;
    int heads, rows;
    int64_t items;
}; /* rows: batch rows x heads */
struct shares {
    float own, part;
};

static __device__ __forceinline__ float *statistic(const tensor &t, int b, int head, int64_t position)
{
    return static_cast<float *>(t.data) + b * t.stride[0] + head * t.stride[1] + position;
}

static __device__ __forceinline__ float *head_of(const tensor &t, int b, int head, int64_t position)
{
    return static_cast<float *>(t.data) + position * t.stride[0] + b * t.stride[1] + head * t.stride[2];
}

/* lse = log(e^lse + e^part), stored by one lane; the shares of both in the sum. */
static __device__ __forceinline__ shares join(float *lse, float part, int lane)
{
    float own = *lse, largest = own > part ? own : part, x = exp_shared(own - largest), y = exp_shared(part - largest);
    __syncwarp();
    if (lane == 0) *lse = largest + logf(x + y);
    return { x / (x + y), y / (x + y) };
}

static __device__ __forceinline__ float weighed(float out, float part, shares s) { return out * s.own + part * s.part; }

static __device__ __forceinline__ void weigh_packs(pack<float> *out, const pack<float> *part, int count, int lane,
                                                   shares s)
{
    for (int k = lane; k < count; k += WARP) {
        pack<float> x = out[k], y = part[k];
        for (int i = 0; i < pack<float>::LENGTH; i++) x.of[i] = weighed(x.of[i], y.of[i], s);
        out[k] = x;
    }
}

template <bool PACKED> KERNEL(THREADS) attention_merge(merge_call c)
{
    int lane = threadIdx.x % WARP;
    int64_t item = blockIdx.x * (int64_t)WARPS + threadIdx.x / WARP;
    if (item >= c.items) return;
    int64_t position = item / c.rows;
    int row = (int)(item - position * c.rows), b = row / c.heads, head = row % c.heads, d = (int)columns_of(c.out);
    float *out = head_of(c.out, b, head, position), *part = head_of(c.part, b, head, position);
    shares s = join(statistic(c.lse, b, head, position), *statistic(c.part_lse, b, head, position), lane);
    if (PACKED)
        weigh_packs(reinterpret_cast<pack<float> *>(out), reinterpret_cast<const pack<float> *>(part),
                    d / pack<float>::LENGTH, lane, s);
    else
        for (int i = lane; i < d; i += WARP) out[i] = weighed(out[i], part[i], s);
}

void cuda_attention_merge(const cuda_call *o)
{
    const tensor &out = o->x[OUT], &part = o->x[PART];
    int rows = (int)(out.dim[1] * out.dim[2]);
    merge_call c = { out, o->x[LSE], part, o->x[PART_LSE], (int)out.dim[2], rows, out.dim[0] * rows };
    int blocks = (int)parts_of(c.items, WARPS);
    if (packs(out, 4) && packs(part, 4)) LAUNCH(attention_merge<true>, blocks, THREADS, 0, o->stream, c);
    else LAUNCH(attention_merge<false>, blocks, THREADS, 0, o->stream, c);
}
