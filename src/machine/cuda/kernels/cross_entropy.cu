/* Cross-entropy over a vocabulary whose columns are divided over ranks. One block of 512 threads per row (32 if rows
 * are short); each thread loads four strips of 16 bytes at a time (BF16). 8B (8192 rows of 128256, BF16): the partial
 * kernel reads 2.1 GB, the finish kernel reads and writes 4.2 GB. They need about 16 and 21 instructions per element;
 * the memory of an H100 leaves time for 18 and 35. */
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { THREADS = 512, FLIGHT = 4, SHORT_ROW = 1024, LOSSES = 1024, LOSS_THREADS = 256 };

/* columns: of this rank; valid: those that are not padding; first: vocabulary index of the first column. */
typedef struct {
    const int32_t *label;
    int64_t columns, valid, first;
    float scale;
} row_rule;

static row_rule rule_of(const cuda_call *c)
{
    const cross_entropy_args &a = c->args.cross_entropy;
    int64_t columns = columns_of(c->x[0]), valid = a.valid - a.first;
    valid = valid < 0 ? 0 : valid < columns ? valid : columns;
    return { static_cast<const int32_t *>(c->x[1].data), columns, valid, a.first, a.gradient_scale };
}

/* Returns the label's column on this rank, or -1. */
static __device__ __forceinline__ int64_t label_column(const row_rule &r)
{
    int64_t column = r.label[blockIdx.x] - r.first;
    return column >= 0 && column < r.valid ? column : -1;
}

/* Calls body(strip, column) for the block's row: first for strips of `length`, of which FLIGHT are loaded before use,
 * then for the remaining elements. Each thread visits its strips in ascending order. */
template <int length, int threads, typename type, typename body_type>
static __device__ __forceinline__ void each_strip(const type *x, int64_t n, body_type body)
{
    const int64_t step = threads * length, whole = n / length * length;
    for (int64_t at = static_cast<int64_t>(threadIdx.x) * length; at < whole; at += FLIGHT * step) {
        strip<type, length> loaded[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (at + i * step < whole) loaded[i] = strip_load<length>(x, at + i * step);
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (at + i * step < whole) body(loaded[i], at + i * step);
    }
    for (int64_t at = whole + threadIdx.x; at < n; at += threads) body(strip_load<1>(x, at), at);
}

/* exp_shared for x <= 0, with the hardware's 2^r, |r| <= 1/2, instead of a polynomial, so that the partial kernel stays
 * limited by memory. It is as accurate (2^-22, and 2^-24 from its argument). Its bits differ from the host's, but so
 * does the order of the sum; the finish kernel has the host's bits. The product at the end keeps a NaN. */
static __device__ __forceinline__ float exp_hardware(float x)
{
    x = x < -87.0f ? -87.0f : x;
    float shifted = fmaf(x, 1.44269502f, 12582912.0f), n = shifted - 12582912.0f;
    float r = fmaf(x, 1.92596299e-8f, fmaf(x, 1.44269502f, -n));
    return exp2_fast(r) * float_from_bits((float_bits(shifted) << 23) + 0x3F800000u);
}

/* A thread's maximum and sum of e^(x - maximum). Eight terms are added as a tree in FP32, the trees in double. Relative
 * errors: exponentials 3e-7; rescaling to a larger maximum 3e-7; three roundings in the tree and one of the sum 2.4e-7;
 * 8.4e-7 in total. The finish kernel adds 3e-7, and 2^-21 if x is up to 16 below the maximum. */
typedef struct {
    float maximum;
    double sum;
} row_part;
template <int warps> struct row_parts {
    float maximum[warps];
    double sum[warps];
};

/* Returns e^(x - to), or 1 if both are the same infinity. */
static __device__ __forceinline__ double rescale_factor(float x, float to)
{
    return x == to ? 1.0 : static_cast<double>(exp_shared(x - to));
}

static __device__ __forceinline__ float tree_sum(const float (&x)[1]) { return x[0]; }
static __device__ __forceinline__ float tree_sum(const float (&x)[STRIP])
{
    return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7]));
}

template <typename type, int length>
static __device__ __forceinline__ void add_strip(row_part &p, const strip<type, length> &x)
{
    float term[length], largest = -INFINITY;
    for (int i = 0; i < length; i++) largest = widen(x.of[i]) > largest ? widen(x.of[i]) : largest;
    if (largest > p.maximum) {
        p.sum *= rescale_factor(p.maximum, largest);
        p.maximum = largest;
    }
    for (int i = 0; i < length; i++) term[i] = exp_hardware(widen(x.of[i]) - p.maximum);
    p.sum += static_cast<double>(tree_sum(term));
}

/* Joins the parts of all threads of the block. All threads get the result. */
template <int warps> static __device__ __forceinline__ row_part block_part(row_part p, row_parts<warps> &shared)
{
    float own = p.maximum;
    p.maximum = warp_maximum(own);
    p.sum *= rescale_factor(own, p.maximum);
    for (int distance = WARP / 2; distance > 0; distance /= 2) p.sum += __shfl_xor_sync(0xFFFFFFFFu, p.sum, distance);
    if (threadIdx.x % WARP == 0) {
        shared.maximum[threadIdx.x / WARP] = p.maximum;
        shared.sum[threadIdx.x / WARP] = p.sum;
    }
    __syncthreads();
    row_part all = { -INFINITY, 0.0 };
    for (int i = 0; i < warps; i++) all.maximum = fmaxf(all.maximum, shared.maximum[i]);
    for (int i = 0; i < warps; i++) all.sum += shared.sum[i] * rescale_factor(shared.maximum[i], all.maximum);
    return all;
}

/* out [rows, 3]: the row's maximum, sum of exponentials, and the label's logit if it is on this rank. */
template <typename type, int length, int threads>
static KERNEL(threads) partial_rows(tensor logits, row_rule r, float *out)
{
    SHARED(row_parts<threads / WARP>, shared);
    const type *x = row_of<type>(logits, blockIdx.x);
    row_part p = { -INFINITY, 0.0 };
    each_strip<length, threads>(x, r.valid, [&](const auto &loaded, int64_t) { add_strip(p, loaded); });
    p = block_part(p, shared);
    if (threadIdx.x > 0) return;
    int64_t own = label_column(r);
    out[3 * blockIdx.x] = p.maximum;
    out[3 * blockIdx.x + 1] = static_cast<float>(p.sum);
    out[3 * blockIdx.x + 2] = own < 0 ? 0.0f : widen(x[own]);
}

/* Joins a row's partial results of all ranks, in the host's order. */
typedef struct {
    float maximum, sum, label;
} row_total;

static __device__ __forceinline__ row_total join_ranks(const float *partials, int64_t ranks)
{
    const float *part = partials + 3 * blockIdx.x;
    int64_t step = 3 * static_cast<int64_t>(gridDim.x);
    row_total t = { -INFINITY, 0.0f, 0.0f };
    for (int64_t r = 0; r < ranks; r++) t.maximum = part[step * r] > t.maximum ? part[step * r] : t.maximum;
    for (int64_t r = 0; r < ranks; r++, part += step) {
        t.sum += part[1] * exp_shared(part[0] - t.maximum);
        t.label += part[2];
    }
    return t;
}

static __device__ double loss_of(row_total t)
{
    return log(static_cast<double>(t.sum)) + static_cast<double>(t.maximum) - static_cast<double>(t.label);
}

/* Replaces a strip of logits by (softmax - onehot) scale. label_index: in the strip. */
template <typename type, int length>
static __device__ __forceinline__ void store_gradient(type *row, int64_t at, const strip<type, length> &x,
                                                      int64_t label_index, row_total t, logit_scale s)
{
    float d[length];
    for (int i = 0; i < length; i++) {
        float power = exp_shared(widen(x.of[i]) - t.maximum);
        d[i] = i == label_index ? label_gradient(s, power) : logit_gradient(s, power);
    }
    strip_store(row, at, d);
}

/* Replaces logits by their gradient, and padding by 0. row_loss [rows] gets each row's loss. */
template <typename type, int length, int threads>
static KERNEL(threads) finish_rows(tensor logits, row_rule r, const float *partials, int64_t ranks, double *row_loss)
{
    type *x = row_of<type>(logits, blockIdx.x), zero = {};
    row_total t = join_ranks(partials, ranks);
    int64_t own = label_column(r);
    logit_scale s = logit_scale_of(t.sum, r.scale);
    if (threadIdx.x == 0) row_loss[blockIdx.x] = loss_of(t);
    each_strip<length, threads>(x, r.valid, [&](const auto &loaded, int64_t at) {
        store_gradient(x, at, loaded, own < 0 ? -1 : own - at, t, s);
    });
    for (int64_t at = r.valid + threadIdx.x; at < r.columns; at += threads) x[at] = zero;
}

/* loss [b] = sum over positions, in order. One block per sample: all threads load, one thread adds. */
typedef struct {
    double loss[LOSSES];
} loss_chunk;

static KERNEL(LOSS_THREADS) sum_losses(const double *row_loss, int64_t rows, double *loss, int64_t stride)
{
    SHARED(loss_chunk, shared);
    int64_t b = gridDim.x, positions = rows / b;
    double sum = 0.0;
    for (int64_t first = 0; first < positions; first += LOSSES) {
        int64_t left = positions - first, count = left < LOSSES ? left : static_cast<int64_t>(LOSSES);
        for (int64_t i = threadIdx.x; i < count; i += LOSS_THREADS)
            shared.loss[i] = row_loss[(first + i) * b + blockIdx.x];
        __syncthreads();
        for (int64_t i = 0; threadIdx.x == 0 && i < count; i++) sum += shared.loss[i];
        __syncthreads();
    }
    if (threadIdx.x == 0) loss[blockIdx.x * stride] = sum;
}

template <int threads> static void partial(const cuda_call *c, const row_rule &r, unsigned rows)
{
    with_type(c->x[0].type, [&](auto zero) {
        using type = decltype(zero);
        auto kernel = packs(c->x[0], STRIP) ? partial_rows<type, STRIP, threads> : partial_rows<type, 1, threads>;
        LAUNCH(kernel, rows, threads, sizeof(row_parts<threads / WARP>), c->stream, c->x[0], r,
               static_cast<float *>(c->x[2].data));
    });
}

template <int threads> static void finish(const cuda_call *c, const row_rule &r, unsigned rows)
{
    const tensor &loss = c->x[3];
    int64_t ranks = elements_of(c->x[2]) / (3 * static_cast<int64_t>(rows));
    double *row_loss = static_cast<double *>(c->scratch);
    with_type(c->x[0].type, [&](auto zero) {
        using type = decltype(zero);
        auto kernel = packs(c->x[0], STRIP) ? finish_rows<type, STRIP, threads> : finish_rows<type, 1, threads>;
        LAUNCH(kernel, rows, threads, 0, c->stream, c->x[0], r, static_cast<const float *>(c->x[2].data), ranks,
               row_loss);
    });
    LAUNCH(sum_losses, static_cast<unsigned>(loss.dim[0]), LOSS_THREADS, sizeof(loss_chunk), c->stream, row_loss,
           static_cast<int64_t>(rows), static_cast<double *>(loss.data), loss.stride[0]);
}

XGSW_EXTERN size_t cuda_cross_entropy_scratch(const cuda_call *c)
{
    return static_cast<size_t>(elements_of(c->x[1])) * sizeof(double);
}

template <int threads> static void cross_entropy(const cuda_call *c, const row_rule &r)
{
    unsigned rows = static_cast<unsigned>(rows_of(c->x[0]));
    if (c->args.cross_entropy.part == CROSS_ENTROPY_PARTIAL) partial<threads>(c, r, rows);
    else finish<threads>(c, r, rows);
}

XGSW_EXTERN void cuda_cross_entropy(const cuda_call *c)
{
    row_rule r = rule_of(c);
    if (r.columns > SHORT_ROW) cross_entropy<THREADS>(c, r);
    else cross_entropy<WARP>(c, r);
}
