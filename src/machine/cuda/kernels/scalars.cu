/* The step's scalars: learning rate, bias corrections, gradient norm and clip factor, each in double by one thread.
 * Also the exact sum of squares, which reads each element once: 16 GB of 8B's BF16 gradients, by blocks of 256 threads
 * with 32 strips each (65536 elements). A thread loads four strips of 16 bytes at once. An element takes five double
 * operations. */
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

static __device__ double learning_rate(const step_begin_args &a, int64_t step)
{
    const double pi = 3.14159265358979323846;
    if (step < a.warmup && a.from_zero) return a.maximum * static_cast<double>(step) / static_cast<double>(a.warmup);
    if (step < a.warmup) return a.maximum * static_cast<double>(step + 1) / static_cast<double>(a.warmup + 1);
    if (a.constant) return a.maximum;
    int64_t last = a.total - 1;
    double done = last > a.warmup ? static_cast<double>(step - a.warmup) / static_cast<double>(last - a.warmup) : 0.0;
    return a.minimum + (a.maximum - a.minimum) / 2 * (1 + cos(pi * (done < 1 ? done : 1)));
}

/* CUDA's cos has an error of 2 ulp (2^-52), so the rate has an error of 2^-51 of its maximum. pow has 2 ulp, too. As
 * 1 - beta^t is at least 0.05, the corrections have an error of 1e-14. */
static KERNEL(WARP) begin_step(double *scalar, step_begin_args a)
{
    if (threadIdx.x > 0) return;
    double step = scalar[SCALAR_STEP] + 1;
    scalar[SCALAR_STEP] = step;
    scalar[SCALAR_LEARNING_RATE] = learning_rate(a, static_cast<int64_t>(step));
    scalar[SCALAR_CORRECTION1] = 1 / (1 - pow(static_cast<double>(a.beta1), step + 1));
    scalar[SCALAR_CORRECTION2] = 1 / (1 - pow(static_cast<double>(a.beta2), step + 1));
}

XGSW_EXTERN void cuda_step_begin(const cuda_call *c)
{
    LAUNCH(begin_step, 1, WARP, 0, c->stream, static_cast<double *>(c->x[0].data), c->args.step_begin);
}

enum { THREADS = 256, FLIGHT = 4, STRIPS = 32, BLOCK_ELEMENTS = THREADS * STRIPS * STRIP };

/* As on the host, squares are rounded to integers in units of 2^-80. Squares of values below SMALL are summed in two
 * 64-bit integers: adding SPLIT rounds a square to a multiple of 2^48, and adding UNIT rounds the rest to an integer.
 * These integers are the bits of both sums minus those of SPLIT and UNIT. A thread adds 256, each at most 2^48. */
static constexpr float SMALL = 256.0f, LIMIT = 16777216.0f; /* 2^8, 2^24 */
static constexpr double UNITS = 0x1p80, SPLIT = 0x1.8p100, UNIT = 0x1.8p52;

typedef unsigned long long word; /* the type of U64 in shuffles */
typedef struct {
    word high, low, sum[EXACT_SUM_WORDS];
} square_total;
typedef struct {
    word sum[THREADS / WARP][EXACT_SUM_WORDS];
} warp_totals;

static __device__ __forceinline__ word double_bits(double x)
{
    word bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static __device__ __forceinline__ void add_small(square_total &t, float x)
{
    double square = static_cast<double>(x) * static_cast<double>(x), split = fma(square, UNITS, SPLIT);
    t.high += double_bits(split) - double_bits(SPLIT);
    t.low += double_bits(fma(square, UNITS, -(split - SPLIT)) + UNIT) - double_bits(UNIT);
}

/* Adds a 128-bit integer to the words, 32 bits to each. */
static __device__ __forceinline__ void add_to_sum(square_total &t, word high, word low)
{
    t.sum[0] += low & 0xFFFFFFFFu;
    t.sum[1] += low >> 32;
    t.sum[2] += high & 0xFFFFFFFFu;
    t.sum[3] += high >> 32;
}

/* The square of a value of at least SMALL is a 48-bit integer times 2^50 to 2^80 units. */
static __device__ __forceinline__ void add_large(square_total &t, float x)
{
    uint32_t bits = float_bits(x) & 0x7FFFFFFFu;
    word root = (bits & 0x7FFFFFu) | 0x800000u, square = root * root;
    int shift = 2 * (static_cast<int>(bits >> 23) - 150) + 80;
    if (!isfinite(x)) t.sum[EXACT_SUM_NOT_FINITE] = 1;
    else if (!(fabsf(x) < LIMIT)) t.sum[EXACT_SUM_OUTGROWN] = 1;
    else if (shift < 64) add_to_sum(t, square >> (64 - shift), square << shift);
    else add_to_sum(t, square << (shift - 64), 0);
}

template <typename type, int length>
static __device__ __forceinline__ void add_strip(square_total &t, const strip<type, length> &x)
{
    bool small = true;
    for (int i = 0; i < length; i++) small = small && fabsf(widen(x.of[i])) < SMALL;
    for (int i = 0; i < length; i++) {
        if (small || fabsf(widen(x.of[i])) < SMALL) add_small(t, widen(x.of[i]));
        else add_large(t, widen(x.of[i]));
    }
}

/* Adds high 2^48 + low to the words. low is signed. */
static __device__ __forceinline__ void close_total(square_total &t)
{
    word low = (t.high << 48) + t.low, sign = static_cast<long long>(t.low) < 0 ? ~0ull : 0ull;
    add_to_sum(t, (t.high >> 16) + sign + (low < t.low), low);
}

/* Returns the block's sums to all threads. */
static __device__ __forceinline__ void block_sums(word (&sum)[EXACT_SUM_WORDS], warp_totals &shared)
{
    for (int i = 0; i < EXACT_SUM_WORDS; i++) {
        for (int distance = WARP / 2; distance > 0; distance /= 2)
            sum[i] += __shfl_xor_sync(0xFFFFFFFFu, sum[i], distance);
        if (threadIdx.x % WARP == 0) shared.sum[threadIdx.x / WARP][i] = sum[i];
    }
    __syncthreads();
    for (int i = 0; i < EXACT_SUM_WORDS; i++) {
        sum[i] = 0;
        for (int warp = 0; warp < THREADS / WARP; warp++) sum[i] += shared.sum[warp][i];
    }
}

/* partial [blocks, EXACT_SUM_WORDS]: sums of BLOCK_ELEMENTS elements each, and of the elements after the strips. */
template <typename type> static KERNEL(THREADS) sum_squares(const type *x, int64_t strips, int64_t n, word *partial)
{
    SHARED(warp_totals, shared);
    square_total t = {};
    int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS * STRIPS + threadIdx.x;
    for (int flight = 0; flight < STRIPS / FLIGHT; flight++, first += THREADS * FLIGHT) {
        strip<type, STRIP> loaded[FLIGHT] = {};
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (first + i * THREADS < strips) loaded[i] = strip_load<STRIP>(x, (first + i * THREADS) * STRIP);
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) add_strip(t, loaded[i]);
    }
    for (int64_t at = strips * STRIP + blockIdx.x * THREADS + threadIdx.x; at < n; at += gridDim.x * THREADS)
        add_strip(t, strip_load<1>(x, at));
    close_total(t);
    block_sums(t.sum, shared);
    if (threadIdx.x == 0)
        for (int i = 0; i < EXACT_SUM_WORDS; i++) partial[blockIdx.x * EXACT_SUM_WORDS + i] = t.sum[i];
}

/* Carries, so that words are below 2^32; the top word keeps the rest. Flags become 0 or 1. */
static __device__ void carry(word *sum)
{
    for (int i = 0; i < EXACT_SUM_NOT_FINITE - 1; i++) {
        sum[i + 1] += sum[i] >> 32;
        sum[i] &= 0xFFFFFFFFu;
    }
    for (int i = EXACT_SUM_NOT_FINITE; i < EXACT_SUM_WORDS; i++) sum[i] = sum[i] != 0;
}

static KERNEL(THREADS) add_partials(const word *partial, unsigned blocks, word *to)
{
    SHARED(warp_totals, shared);
    word sum[EXACT_SUM_WORDS] = {};
#pragma unroll 4
    for (unsigned block = threadIdx.x; block < blocks; block += THREADS)
        for (int i = 0; i < EXACT_SUM_WORDS; i++) sum[i] += partial[block * EXACT_SUM_WORDS + i];
    block_sums(sum, shared);
    if (threadIdx.x > 0) return;
    for (int i = 0; i < EXACT_SUM_WORDS; i++) sum[i] += to[i];
    carry(sum);
    for (int i = 0; i < EXACT_SUM_WORDS; i++) to[i] = sum[i];
}

static unsigned square_blocks(const tensor &x)
{
    return static_cast<unsigned>(parts_of(elements_of(x), BLOCK_ELEMENTS));
}

XGSW_EXTERN size_t cuda_square_sum_scratch(const cuda_call *c)
{
    return square_blocks(c->x[0]) * EXACT_SUM_WORDS * sizeof(word);
}

XGSW_EXTERN void cuda_square_sum(const cuda_call *c)
{
    const tensor &x = c->x[0];
    unsigned blocks = square_blocks(x);
    int64_t n = elements_of(x), strips = reinterpret_cast<uintptr_t>(x.data) % 16 == 0 ? n / STRIP : 0;
    word *partial = static_cast<word *>(c->scratch);
    with_type(x.type, [&](auto zero) {
        using type = decltype(zero);
        LAUNCH(sum_squares<type>, blocks, THREADS, sizeof(warp_totals), c->stream, static_cast<const type *>(x.data),
               strips, n, partial);
    });
    LAUNCH(add_partials, 1, THREADS, sizeof(warp_totals), c->stream, partial, blocks,
           static_cast<word *>(c->x[1].data));
}

/* Returns the square root of the integer in units of 2^-80; NaN if an input was not finite, infinity above 128 bits. */
static __device__ double norm_of(const word *squares)
{
    word sum[EXACT_SUM_WORDS];
    for (int i = 0; i < EXACT_SUM_WORDS; i++) sum[i] = squares[i];
    carry(sum);
    if (sum[EXACT_SUM_NOT_FINITE]) return static_cast<double>(NAN);
    if (sum[EXACT_SUM_OUTGROWN] || sum[EXACT_SUM_NOT_FINITE - 1] >> 32) return static_cast<double>(INFINITY);
    double value = 0.0;
    for (int i = EXACT_SUM_NOT_FINITE - 1; i >= 0; i--) value = value * 0x1p32 + static_cast<double>(sum[i]);
    return sqrt(value * 0x1p-80);
}

static KERNEL(WARP) clip_step(const word *squares, const double *loss, double *scalar, step_clip_args a)
{
    if (threadIdx.x > 0) return;
    double norm = norm_of(squares), factor = a.clip / (norm + 1e-6);
    scalar[SCALAR_NORM] = norm;
    scalar[SCALAR_CLIP] = a.clip > 0 && isfinite(norm) && factor < 1 ? factor : 1;
    scalar[SCALAR_LOSS] = *loss / a.tokens;
}

XGSW_EXTERN void cuda_step_clip(const cuda_call *c)
{
    LAUNCH(clip_step, 1, WARP, 0, c->stream, static_cast<const word *>(c->x[0].data),
           static_cast<const double *>(c->x[1].data), static_cast<double *>(c->x[2].data), c->args.step_clip);
}
