/* Totals that help to prove sums of gradients over ranks: sums with random signs, sums of squares, in double. Each
 * element is read once: a rank's 12.7 GB of 405B's BF16 gradients, by blocks of 256 threads with 32 strips each. A
 * thread loads four strips of 16 bytes at once. An element takes a conversion and two double operations. */
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { THREADS = 256, FLIGHT = 4, STRIPS = 32, CHUNK = THREADS * STRIPS * STRIP };

struct warp_slice_totals {
    slice_totals of[THREADS / WARP];
};

/* Blocks: for each slice and owner, `chunks` of CHUNK elements. */
typedef struct {
    int64_t part;
    int owners, chunks;
} slice_cut;

static slice_cut slice_cut_of(const cuda_call *c)
{
    int owners = c->args.signed_sums.owners;
    int64_t part = elements_of(c->x[0]) / owners, longest = parts_of(part / SIGN_RUN, SUM_SLICES) * SIGN_RUN;
    return { part, owners, (int)parts_of(longest, CHUNK) };
}

template <typename type, int length>
static __device__ __forceinline__ void add_strip(slice_totals &t, const strip<type, length> &x, uint32_t signs,
                                                 int first)
{
    for (int i = 0; i < length; i++) {
        double value = static_cast<double>(widen(x.of[i]));
        t.of[SLICE_SIGNED] += static_cast<double>(signed_value(widen(x.of[i]), signs, first + i));
        t.of[SLICE_SQUARES] = fma(value, value, t.of[SLICE_SQUARES]);
    }
}

/* Adds the block's totals in a fixed order. The first thread stores them. */
static __device__ __forceinline__ void block_totals(slice_totals &t, warp_slice_totals &shared, double *to)
{
    for (int i = 0; i < SLICE_TOTALS; i++)
        for (int distance = WARP / 2; distance > 0; distance /= 2)
            t.of[i] += __shfl_xor_sync(0xFFFFFFFFu, t.of[i], distance);
    if (threadIdx.x % WARP == 0) shared.of[threadIdx.x / WARP] = t;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 0; i < SLICE_TOTALS; i++) {
        double sum = 0.0;
        for (int warp = 0; warp < THREADS / WARP; warp++) sum += shared.of[warp].of[i];
        to[i] = sum;
    }
}

template <typename type, int length>
static KERNEL(THREADS)
    sum_slices(const type *x, const double *scalars, slice_cut cut, signed_sums_args a, double *partial)
{
    SHARED(warp_slice_totals, shared);
    int chunk = blockIdx.x % cut.chunks, slice_owner = blockIdx.x / cut.chunks, slice = slice_owner / cut.owners;
    int64_t from = slice_owner % cut.owners * cut.part, end = from + slice_begin(cut.part, slice + 1);
    int64_t at = from + slice_begin(cut.part, slice) + static_cast<int64_t>(chunk) * CHUNK + threadIdx.x * length;
    uint64_t key = signs_key(a.key, scalars[SCALAR_STEP]);
    slice_totals t = {};
    for (int flight = 0; flight < CHUNK / (THREADS * FLIGHT * length); flight++, at += THREADS * FLIGHT * length) {
        strip<type, length> loaded[FLIGHT] = {};
#pragma unroll
        for (int i = 0; i < FLIGHT; i++)
            if (at + i * THREADS * length < end) loaded[i] = strip_load<length>(x, at + i * THREADS * length);
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) {
            int64_t place = a.place + at + i * THREADS * length;
            add_strip(t, loaded[i], signs_of(key, place / SIGN_RUN), static_cast<int>(place % SIGN_RUN));
        }
    }
    block_totals(t, shared, partial + static_cast<int64_t>(blockIdx.x) * SLICE_TOTALS);
}

/* Adds the `count` partial totals of each slice. One block per slice. */
static KERNEL(THREADS) add_slices(const double *partial, int count, double *to)
{
    SHARED(warp_slice_totals, shared);
    slice_totals t = {};
    for (int at = threadIdx.x; at < count; at += THREADS)
        for (int i = 0; i < SLICE_TOTALS; i++)
            t.of[i] += partial[(static_cast<int64_t>(blockIdx.x) * count + at) * SLICE_TOTALS + i];
    block_totals(t, shared, to + blockIdx.x * SLICE_TOTALS);
}

XGSW_EXTERN size_t cuda_signed_sums_scratch(const cuda_call *c)
{
    slice_cut cut = slice_cut_of(c);
    return sizeof(slice_totals) * SUM_SLICES * (size_t)cut.owners * (size_t)cut.chunks;
}

template <typename type, int length> static void sum_signed(const cuda_call *c, const slice_cut &cut)
{
    LAUNCH((sum_slices<type, length>), (unsigned)(SUM_SLICES * cut.owners * cut.chunks), THREADS,
           sizeof(warp_slice_totals), c->stream, static_cast<const type *>(c->x[0].data),
           static_cast<const double *>(c->x[1].data), cut, c->args.signed_sums, static_cast<double *>(c->scratch));
}

XGSW_EXTERN void cuda_signed_sums(const cuda_call *c)
{
    slice_cut cut = slice_cut_of(c);
    with_type(c->x[0].type, [&](auto zero) {
        if (packs(c->x[0], STRIP)) sum_signed<decltype(zero), STRIP>(c, cut);
        else sum_signed<decltype(zero), 1>(c, cut);
    });
    LAUNCH(add_slices, SUM_SLICES, THREADS, sizeof(warp_slice_totals), c->stream,
           static_cast<const double *>(c->scratch), cut.owners * cut.chunks, static_cast<double *>(c->x[2].data));
}
