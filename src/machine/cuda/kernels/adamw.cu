/* AdamW over one bucket (Loshchilov & Hutter 2019, algorithm 2) in one launch. The gradient is multiplied by the step's
 * clip factor. A thread updates a strip of 8 elements and issues all its loads first (7 packs of 16 bytes with FP32
 * master and moments). One element moves 30 bytes with FP32 gradient, master and moments and BF16 weight: 240 GB for 8B
 * on one device. Formats are not template parameters, because there are many combinations, and a branch without
 * divergence costs nothing here. */
#include "machine/cuda/kernels/fp8_values.cuh"
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { THREADS = 256 };

typedef struct {
    void *data;
    dtype type;
} array;
typedef struct {
    array gradient, weight, master, first, second;
    const float *scale; /* if the weight is FP8 */
    int32_t *amax;
    unsigned long long *counts;
} bucket; /* absent tensors have data NULL */
struct warp_statistics {
    int32_t amax[THREADS / WARP];
    uint32_t counts[THREADS / WARP];
};

/* Elements as loaded: one FP32 per word, or two BF16, the first in the low half. */
template <int length> struct words {
    uint32_t of[length];
};

static __device__ __forceinline__ void load(words<STRIP> &x, const array &p, int64_t at)
{
    const quad *from = static_cast<const quad *>(p.data) + (p.type == BF16 ? at / 8 : at / 4);
    quad low = from[0], high = {};
    if (p.type == F32) high = from[1];
    for (int i = 0; i < 4; i++) x.of[i] = low.of[i], x.of[i + 4] = high.of[i];
}

static __device__ __forceinline__ void load(words<1> &x, const array &p, int64_t at)
{
    x.of[0] = p.type == BF16 ? static_cast<const uint16_t *>(p.data)[at] : static_cast<const uint32_t *>(p.data)[at];
}

template <int length> static __device__ __forceinline__ float value(const words<length> &x, dtype type, int i)
{
    uint32_t half = x.of[i / 2] >> (i % 2 * 16);
    return type == BF16 ? bf16_widen(static_cast<uint16_t>(half)) : float_from_bits(x.of[i]);
}

static __device__ __forceinline__ void store(const array &p, int64_t at, const float (&x)[STRIP])
{
    quad low, high, *to = static_cast<quad *>(p.data) + (p.type == BF16 ? at / 8 : at / 4);
    for (int i = 0; i < 4; i++) low.of[i] = p.type == BF16 ? pack_bf16(x[2 * i], x[2 * i + 1]) : float_bits(x[i]);
    for (int i = 0; i < 4; i++) high.of[i] = float_bits(x[i + 4]);
    to[0] = low;
    if (p.type == F32) to[1] = high;
}

static __device__ __forceinline__ void store(const array &p, int64_t at, const float (&x)[1])
{
    if (p.type == BF16) static_cast<uint16_t *>(p.data)[at] = round_bf16(x[0]);
    else static_cast<float *>(p.data)[at] = x[0];
}

static __device__ __forceinline__ void store_fp8(const array &p, int64_t at, const float (&x)[STRIP])
{
    static_cast<fp8_words *>(p.data)[at / STRIP] = pack_fp8(p.type, x);
}

static __device__ __forceinline__ void store_fp8(const array &p, int64_t at, const float (&x)[1])
{
    static_cast<uint8_t *>(p.data)[at] = (uint8_t)pack_fp8(p.type, x[0], 0.0f, 0.0f, 0.0f);
}

/* FP8 values are converted from the weight rounded to BF16, which the FP8 statistics describe. */
template <int length>
static __device__ __forceinline__ fp8_statistics store_weight(const bucket &b, int64_t at, const float (&x)[length])
{
    float scale = b.scale ? *b.scale : 1.0f, rounded[length], scaled[length];
    fp8_statistics statistics = {};
    for (int i = 0; i < length; i++) rounded[i] = bf16_widen(round_bf16(x[i])), scaled[i] = rounded[i] * scale;
    add_statistics(b.weight.type, statistics, rounded, scaled, scale);
    if (b.scale) store_fp8(b.weight, at, scaled);
    else store(b.weight, at, x);
    return statistics;
}

/* Updates one strip of the master, or of the weight if there is no master. Returns the new weights' FP8 statistics. */
template <int length>
static __device__ __forceinline__ fp8_statistics update_strip(bucket b, const adamw_rule &rule, const double *scalar,
                                                              int64_t at)
{
    array values = { b.master.data ? b.master.data : b.weight.data, b.master.data ? b.master.type : b.weight.type };
    words<length> g, w, m, v;
    float weight[length], first[length], second[length];
    load(g, b.gradient, at);
    load(w, values, at);
    load(m, b.first, at);
    load(v, b.second, at);
    float clip = static_cast<float>(scalar[SCALAR_CLIP]), rate = static_cast<float>(scalar[SCALAR_LEARNING_RATE]);
    float correction1 = static_cast<float>(scalar[SCALAR_CORRECTION1]),
          correction2 = static_cast<float>(scalar[SCALAR_CORRECTION2]);
    for (int i = 0; i < length; i++) {
        adamw_state state = { value(w, values.type, i), value(m, b.first.type, i), value(v, b.second.type, i) };
        adamw_update(&rule, rate, correction1, correction2, &state, value(g, b.gradient.type, i) * clip);
        weight[i] = state.weight;
        first[i] = state.first;
        second[i] = state.second;
    }
    store(b.first, at, first);
    store(b.second, at, second);
    if (b.master.data) store(b.master, at, weight);
    return store_weight(b, at, weight);
}

/* Threads with a strip come first, then one thread for each remaining element. */
static KERNEL(THREADS) update_bucket(bucket b, adamw_rule rule, const double *scalar, int64_t strips, int64_t n)
{
    SHARED(warp_statistics, parts);
    int64_t thread = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x, at = strips * STRIP + thread - strips;
    fp8_statistics statistics = {};
    if (thread < strips) statistics = update_strip<STRIP>(b, rule, scalar, thread * STRIP);
    else if (at < n) statistics = update_strip<1>(b, rule, scalar, at);
    if (b.amax) block_amax(b.amax, statistics.amax, parts.amax);
    if (b.counts) block_counts(b.counts, statistics.counts, n, parts.counts);
}

static array array_of(const tensor &t) { return { t.data, t.type }; }

static bool aligned(const bucket &b)
{
    const array arrays[] = { b.gradient, b.weight, b.master, b.first, b.second };
    uintptr_t bits = 0;
    for (const array &p : arrays) bits |= reinterpret_cast<uintptr_t>(p.data);
    return bits % 16 == 0;
}

XGSW_EXTERN void cuda_adamw(const cuda_call *c)
{
    bucket b = { array_of(c->x[1]),
                 array_of(c->x[2]),
                 array_of(c->x[3]),
                 array_of(c->x[4]),
                 array_of(c->x[5]),
                 static_cast<const float *>(c->x[6].data),
                 static_cast<int32_t *>(c->x[7].data),
                 static_cast<unsigned long long *>(c->x[8].data) };
    int64_t n = elements_of(c->x[2]), strips = aligned(b) ? n / STRIP : 0;
    unsigned blocks = static_cast<unsigned>(parts_of(strips + (n - strips * STRIP), THREADS));
    LAUNCH(update_bucket, blocks, THREADS, sizeof(warp_statistics), c->stream, b, c->args.adamw,
           static_cast<const double *>(c->x[0].data), strips, n);
}
