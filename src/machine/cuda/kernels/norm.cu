/* RMSNorm (Zhang & Sennrich 2019) and LayerNorm (CENTRED; Ba et al. 2016) of x or of x + delta. [8192, 4096] BF16 with
 * delta: 268 MB (x, delta, sum, out) by 8192 blocks of 128 threads. */
#include "machine/cuda/kernels/fp8_tiles.cuh"
#include "machine/cuda/kernels/norm_rows.cuh"

enum { FORWARD_PACKS = 4 };

struct forward_call {
    tensor x, delta, gain, bias, sum, out;
    float *rstd, *mean, epsilon; /* mean NULL: RMSNorm */
    int n;
};

static __device__ __forceinline__ float rstd_of(const forward_call &c, float squares)
{
    return 1.0f / sqrtf(squares / (float)c.n + c.epsilon);
}

/* x += delta, rounded to x's format. */
template <typename type, int PACKS>
static __device__ __forceinline__ void add(pack<type> (&x)[PACKS], const pack<type> (&delta)[PACKS])
{
    for (int k = 0; k < PACKS; k++) {
        float sum[pack<type>::LENGTH];
        for (int i = 0; i < pack<type>::LENGTH; i++) sum[i] = get(x[k], i) + get(delta[k], i);
        narrow(x[k], sum);
    }
}

template <typename type, int PACKS> static __device__ __forceinline__ float squares_of(const pack<type> (&x)[PACKS])
{
    float sum = 0.0f;
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < pack<type>::LENGTH; i++) sum = fmaf(get(x[k], i), get(x[k], i), sum);
    return sum;
}

template <typename type, int PACKS> static __device__ __forceinline__ float sum_of(const pack<type> (&x)[PACKS])
{
    float sum = 0.0f;
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < pack<type>::LENGTH; i++) sum += get(x[k], i);
    return sum;
}

/* Returns the sum of squared differences from the mean over the existing columns. */
template <typename type, int PACKS>
static __device__ __forceinline__ float squared_deviations(float mean, const pack<type> (&x)[PACKS], int n)
{
    float sum = 0.0f;
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < pack<type>::LENGTH && threadIdx.x + k * blockDim.x < n / pack<type>::LENGTH; i++)
            sum = fmaf(get(x[k], i) - mean, get(x[k], i) - mean, sum);
    return sum;
}

static __device__ __forceinline__ float centred(float x, float mean, float rstd, float gain, float bias)
{
    return fmaf((x - mean) * rstd, 1.0f + gain, bias);
}

template <typename type, int PACKS, bool CENTRED> KERNEL(LARGEST_BLOCK) norm_forward_packs(forward_call c)
{
    SHARED(warp_sums, partial);
    int row = blockIdx.x;
    pack<type> x[PACKS], other[PACKS];
    fetch(x, c.x, row, c.n);
    if (c.delta.dims > 0) {
        fetch(other, c.delta, row, c.n);
        add(x, other);
        store(c.sum, row, c.n, x);
    }
    if (c.out.dims > 0) fetch(other, c.gain, 0, c.n);
    float mean = CENTRED ? block_sum(sum_of(x), partial.of) / (float)c.n : 0.0f;
    float rstd = rstd_of(c, block_sum(CENTRED ? squared_deviations(mean, x, c.n) : squares_of(x), partial.of));
    if (threadIdx.x == 0) c.rstd[row] = rstd;
    if (CENTRED && threadIdx.x == 0) c.mean[row] = mean;
    if (c.out.dims == 0) return;
    for (int k = 0; k < PACKS; k++) {
        float y[pack<type>::LENGTH];
        pack<type> bias = CENTRED ? fetch_one<type>(c.bias, 0, c.n, k) : pack<type>{};
        for (int i = 0; i < pack<type>::LENGTH; i++)
            y[i] = CENTRED ? centred(get(x[k], i), mean, rstd, get(other[k], i), get(bias, i))
                           : get(x[k], i) * rstd * get(other[k], i);
        narrow(x[k], y);
    }
    store(c.out, row, c.n, x);
}

template <bool CENTRED> KERNEL(PLAIN_THREADS) norm_forward_plain(forward_call c)
{
    SHARED(warp_sums, partial);
    int row = blockIdx.x, n = c.n;
    bool adds = c.delta.dims > 0;
    line x = line_of(c.x, row), sum = adds ? line_of(c.sum, row) : x, gain = line_of(c.gain, 0);
    float total = 0.0f, squares = 0.0f, mean = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (adds) put(sum, i, get(x, i) + get(line_of(c.delta, row), i));
        if (CENTRED) total += get(sum, i);
        else squares = fmaf(get(sum, i), get(sum, i), squares);
    }
    if (CENTRED) mean = block_sum(total, partial.of) / (float)n;
    for (int i = threadIdx.x; CENTRED && i < n; i += blockDim.x)
        squares = fmaf(get(sum, i) - mean, get(sum, i) - mean, squares);
    float rstd = rstd_of(c, block_sum(squares, partial.of));
    if (threadIdx.x == 0) c.rstd[row] = rstd;
    if (CENTRED && threadIdx.x == 0) c.mean[row] = mean;
    for (int i = threadIdx.x; i < n && c.out.dims > 0; i += blockDim.x)
        put(line_of(c.out, row), i,
            CENTRED ? centred(get(sum, i), mean, rstd, get(gain, i), get(line_of(c.bias, 0), i))
                    : get(sum, i) * rstd * get(gain, i));
}

template <typename type, bool CENTRED>
static void forward_of(const forward_call &c, bool fast, int rows, cudaStream_t stream)
{
    int threads = threads_for(parts_of(c.n / pack<type>::LENGTH, FORWARD_PACKS), LARGEST_BLOCK);
    if (fast) LAUNCH((norm_forward_packs<type, FORWARD_PACKS, CENTRED>), rows, threads, sizeof(warp_sums), stream, c);
    else LAUNCH(norm_forward_plain<CENTRED>, rows, PLAIN_THREADS, sizeof(warp_sums), stream, c);
}

/* ---- FP8 output (fp8_tiles.cuh), after the rows' statistics are known ---- */

template <bool CENTRED> struct norm_values {
    enum { PARTS = 1, PREFETCH = 1, FORMAT = E4M3 };
    using value = bf16;
    tensor x;
    const bf16 *gain, *bias;
    const float *rstd, *mean;
    struct given {
        pack<bf16, STRIP> x, gain, bias;
        float rstd, mean;
    };

    template <bool packed> __device__ __forceinline__ given load(const strip_place &at, int k) const
    {
        given g = { strip_of<packed>(at.of<packed, const bf16>(x, k), at.columns),
                    strip_of<packed>(gain + at.column, at.columns),
                    {},
                    rstd[at.row(k)],
                    0.0f };
        if (CENTRED) g.bias = strip_of<packed>(bias + at.column, at.columns), g.mean = mean[at.row(k)];
        return g;
    }
    static __device__ __forceinline__ void values(const given &g, float (&y)[PARTS][STRIP])
    {
        for (int i = 0; i < STRIP; i++)
            y[0][i] = CENTRED ? centred(get(g.x, i), g.mean, g.rstd, get(g.gain, i), get(g.bias, i))
                              : get(g.x, i) * g.rstd * get(g.gain, i);
    }
};

template <bool CENTRED> static void encode_rows_of(const cuda_call *o, const forward_call &c, int at)
{
    const tensor sum = c.delta.dims > 0 ? c.sum : c.x;
    norm_values<CENTRED> from = { sum, static_cast<const bf16 *>(c.gain.data), static_cast<const bf16 *>(c.bias.data),
                                  c.rstd, c.mean };
    bool packs = aligned(sum, 16, sizeof(bf16)) && aligned(c.gain, 16, sizeof(bf16)) &&
                 (!CENTRED || aligned(c.bias, 16, sizeof(bf16)));
    encode_values(encoding_of(o, at, rows_of(sum), c.n), from, packs, o->stream);
}

void cuda_norm_forward(const cuda_call *o)
{
    const tensor x = merged(o->x[0]), delta = merged(o->x[1]), gain = merged(o->x[2]), sum = merged(o->x[3]),
                 out = merged(o->x[4]), bias = merged(o->x[6]);
    const tensor all[] = { x, delta, gain, sum, out, bias };
    float *rstd = floats_of(o->x[5]), *mean = floats_of(o->x[7]);
    forward_call c = { x, delta, gain, bias, sum, out, rstd, mean, o->args.norm.epsilon, (int)columns_of(x) };
    int rows = (int)rows_of(x);
    bool fast = c.n <= LARGEST_BLOCK * FORWARD_PACKS * (x.type == BF16 ? 8 : 4) && uniform(all, 6);
    with_type(x.type, [&](auto zero) {
        if (mean) forward_of<decltype(zero), true>(c, fast, rows, o->stream);
        else forward_of<decltype(zero), false>(c, fast, rows, o->stream);
    });
    if (writes_fp8(o, 8) && mean) encode_rows_of<true>(o, c, 8);
    else if (writes_fp8(o, 8)) encode_rows_of<false>(o, c, 8);
}
