/* Backward of RMSNorm and LayerNorm (CENTRED). With unit = x rstd and d_unit = d_out gain:
 * dx = rstd (d_unit - unit mean(d_unit unit)), d gain = sum over rows of d_out unit. CENTRED: x minus its mean replaces
 * x, 1 + gain replaces gain, dx is smaller by rstd mean(d_unit), d bias = sum over rows of d_out. [8192, 4096] BF16,
 * added to dx: 268 MB (d_out, x, dx twice) and 8 MB for the gain's gradient, by 264 blocks of 512 threads. Each block
 * loads its next row before it sums the current one. */
#include "machine/cuda/kernels/norm_rows.cuh"

/* Two per multiprocessor of an H100. The number is the same on every device, so that the order of sums is, too. */
enum { BACKWARD_BLOCKS = 264 };

struct backward_call {
    tensor d_out, x, gain, dx;
    const float *rstd, *mean;
    float *partial; /* [blocks, n] for the gain; CENTRED: the same for the bias after it */
    int rows, n;
    bool adds;
};

/* A row's sums of d_unit x, and of d_unit. */
struct row_sums {
    float slope, constant;
};

template <bool CENTRED>
static __device__ __forceinline__ row_sums projection_of(const backward_call &c, row_sums s, float rstd)
{
    return { s.slope * rstd / (float)c.n * rstd * rstd, CENTRED ? s.constant / (float)c.n * rstd : 0.0f };
}

template <bool CENTRED> static __device__ __forceinline__ row_sums block_sums(row_sums s, warp_sums (&partial)[2])
{
    int warps = blockDim.x / WARP;
    if (!CENTRED) return { block_sum(s.slope, partial[0].of), 0.0f };
    s = { warp_sum(s.slope), warp_sum(s.constant) };
    __syncthreads();
    if (threadIdx.x % WARP == 0) partial[0].of[threadIdx.x / WARP] = s.slope;
    if (threadIdx.x % WARP == 0) partial[1].of[threadIdx.x / WARP] = s.constant;
    __syncthreads();
    s = {};
    for (int i = 0; i < warps; i++) s = { s.slope + partial[0].of[i], s.constant + partial[1].of[i] };
    return s;
}

struct row_statistics {
    float mean, rstd;
};

/* Return x and gain as the formulas use them. */
template <bool CENTRED> static __device__ __forceinline__ float minus_mean(float x, float mean)
{
    return CENTRED ? x - mean : x;
}
template <bool CENTRED> static __device__ __forceinline__ float full_gain(float gain)
{
    return CENTRED ? 1.0f + gain : gain;
}

/* A row of d_out and of x. */
template <typename type, int PACKS> struct row_data {
    pack<type> d[PACKS], x[PACKS];
};

template <typename type, int PACKS>
static __device__ __forceinline__ void fetch_both(row_data<type, PACKS> &to, const backward_call &c, int row)
{
    fetch(to.d, c.d_out, row, c.n);
    fetch(to.x, c.x, row, c.n);
}

/* Adds the row's contributions to the gradients: sums has the gain's columns first, then the bias's. Returns this
 * thread's part of the row's sums. */
template <bool CENTRED, typename type, int PACKS>
static __device__ __forceinline__ row_sums project(const row_data<type, PACKS> &row, const pack<type> (&gain)[PACKS],
                                                   row_statistics s, float *sums)
{
    enum { LENGTH = pack<type>::LENGTH };
    row_sums sum = {};
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < LENGTH; i++) {
            float d = get(row.d[k], i), g = full_gain<CENTRED>(get(gain[k], i));
            float product = d * minus_mean<CENTRED>(get(row.x[k], i), s.mean);
            float &into = sums[k * LENGTH + i];
            into = fmaf(product, s.rstd, into);
            sum.slope = fmaf(product, g, sum.slope);
            if (CENTRED) sum.constant = fmaf(d, g, sum.constant);
            if (CENTRED) sums[(PACKS + k) * LENGTH + i] += d;
        }
    return sum;
}

template <bool CENTRED>
static __device__ __forceinline__ float derivative(float d, float x, float gain, row_statistics s, row_sums p)
{
    float y = fmaf(d * full_gain<CENTRED>(gain), s.rstd, -(minus_mean<CENTRED>(x, s.mean) * p.slope));
    return CENTRED ? y - p.constant : y;
}

template <bool CENTRED, typename type, int PACKS>
static __device__ __forceinline__ void derive(pack<type> (&dx)[PACKS], bool adds, const row_data<type, PACKS> &row,
                                              const pack<type> (&gain)[PACKS], row_statistics s, row_sums p)
{
    for (int k = 0; k < PACKS; k++) {
        float sum[pack<type>::LENGTH];
        for (int i = 0; i < pack<type>::LENGTH; i++)
            sum[i] = derivative<CENTRED>(get(row.d[k], i), get(row.x[k], i), get(gain[k], i), s, p);
        for (int i = 0; adds && i < pack<type>::LENGTH; i++) sum[i] += get(dx[k], i);
        narrow(dx[k], sum);
    }
}

template <typename type, int PACKS>
static __device__ __forceinline__ void store_sums(const backward_call &c, float *partial, const float *sums)
{
    enum { LENGTH = pack<type>::LENGTH };
    for (int k = 0; k < PACKS; k++) {
        int at = (threadIdx.x + k * blockDim.x) * LENGTH;
        pack<float> *to = reinterpret_cast<pack<float> *>(partial + blockIdx.x * (int64_t)c.n + at);
        const float *sum = sums + k * LENGTH;
        for (int i = 0; at < c.n && i < LENGTH; i += 4) to[i / 4] = { { sum[i], sum[i + 1], sum[i + 2], sum[i + 3] } };
    }
}

/* Each thread's sums over rows are in registers; for the longest rows they are in shared memory, padded to avoid bank
 * conflicts. The longest rows take 156 KiB, which not every GPU has. */
template <typename type, int PACKS, bool CENTRED, bool LONGEST, int THREADS> struct backward_shared {
    enum { OF_GAIN = PACKS * pack<type>::LENGTH, SUMS = CENTRED ? 2 * OF_GAIN : OF_GAIN };
    warp_sums partial[2];
    float sums[LONGEST ? THREADS : 1][SUMS + 4];
};

/* Processes rows blockIdx, blockIdx + blocks, ... The next row is loaded during the current one. The longest rows leave
 * no registers for that: they load gain twice, and dx late. */
template <typename type, int PACKS, bool CENTRED, bool LONGEST, int THREADS>
KERNEL(THREADS)
norm_backward_packs(backward_call c)
{
    typedef backward_shared<type, PACKS, CENTRED, LONGEST, THREADS> shared_type;
    SHARED(shared_type, shared);
    float register_sums[shared_type::SUMS] = {}, *sums = LONGEST ? shared.sums[threadIdx.x] : register_sums;
    row_data<type, PACKS> row, next;
    int blocks = gridDim.x;
    for (int i = 0; i < shared_type::SUMS; i++) sums[i] = 0.0f;
    if (!LONGEST) fetch_both(next, c, blockIdx.x);
    for (int at = blockIdx.x; at < c.rows; at += blocks) {
        pack<type> dx[PACKS] = {}, gain[PACKS];
        row_statistics s = { CENTRED ? c.mean[at] : 0.0f, c.rstd[at] };
        if (LONGEST) fetch_both(row, c, at);
        else row = next;
        if (!LONGEST && c.adds) fetch(dx, c.dx, at, c.n);
        fetch(gain, c.gain, 0, c.n);
        if (!LONGEST && at + blocks < c.rows) fetch_both(next, c, at + blocks);
        row_sums totals = block_sums<CENTRED>(project<CENTRED>(row, gain, s, sums), shared.partial);
        if (LONGEST && c.adds) fetch(dx, c.dx, at, c.n);
        if (LONGEST) fetch(gain, c.gain, 0, c.n);
        derive<CENTRED>(dx, c.adds, row, gain, s, projection_of<CENTRED>(c, totals, s.rstd));
        store(c.dx, at, c.n, dx);
    }
    store_sums<type, PACKS>(c, c.partial, sums);
    if (CENTRED) store_sums<type, PACKS>(c, c.partial + gridDim.x * (int64_t)c.n, sums + shared_type::OF_GAIN);
}

/* Processes a row in the plain kernel. Each thread adds to its own columns of the block's sums. */
template <bool CENTRED>
static __device__ __forceinline__ void plain_row(const backward_call &c, int row, float *gain_sum, float *bias_sum,
                                                 warp_sums (&partial)[2])
{
    line d = line_of(c.d_out, row), x = line_of(c.x, row), gain = line_of(c.gain, 0), dx = line_of(c.dx, row);
    row_statistics s = { CENTRED ? c.mean[row] : 0.0f, c.rstd[row] };
    row_sums sum = {};
    for (int i = threadIdx.x; i < c.n; i += blockDim.x) {
        float product = get(d, i) * minus_mean<CENTRED>(get(x, i), s.mean), g = full_gain<CENTRED>(get(gain, i));
        gain_sum[i] = fmaf(product, s.rstd, gain_sum[i]);
        sum.slope = fmaf(product, g, sum.slope);
        if (CENTRED) bias_sum[i] += get(d, i);
        if (CENTRED) sum.constant = fmaf(get(d, i), g, sum.constant);
    }
    row_sums p = projection_of<CENTRED>(c, block_sums<CENTRED>(sum, partial), s.rstd);
    for (int i = threadIdx.x; i < c.n; i += blockDim.x) {
        float own = derivative<CENTRED>(get(d, i), get(x, i), get(gain, i), s, p);
        put(dx, i, c.adds ? get(dx, i) + own : own);
    }
}

struct plain_shared {
    warp_sums partial[2];
};

template <bool CENTRED> KERNEL(PLAIN_THREADS) norm_backward_plain(backward_call c)
{
    SHARED(plain_shared, shared);
    float *gain_sum = c.partial + blockIdx.x * (int64_t)c.n, *bias_sum = gain_sum + gridDim.x * (int64_t)c.n;
    for (int i = threadIdx.x; i < c.n; i += blockDim.x) gain_sum[i] = 0.0f;
    for (int i = threadIdx.x; CENTRED && i < c.n; i += blockDim.x) bias_sum[i] = 0.0f;
    for (int row = blockIdx.x; row < c.rows; row += gridDim.x)
        plain_row<CENTRED>(c, row, gain_sum, bias_sum, shared.partial);
}

/* Each lane adds the blocks' sums of one column: each warp adds an equal share of the blocks, then the first warp adds
 * the shares, always in order. */
struct lane_sums {
    float of[WARP][WARP];
};

KERNEL(LARGEST_BLOCK) norm_gain_sum(float *to, bool adds, const float *partial, int blocks, int64_t n)
{
    SHARED(lane_sums, sums);
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, share = (int)parts_of(blocks, WARP);
    int64_t column = blockIdx.x * (int64_t)WARP + lane;
    float sum = 0.0f;
    for (int block = warp * share; column < n && block < (warp + 1) * share && block < blocks; block++)
        sum += partial[block * n + column];
    sums.of[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= n) return;
    sum = adds ? to[column] : 0.0f;
    for (int i = 0; i < WARP; i++) sum += sums.of[i][lane];
    to[column] = sum;
}

static int backward_blocks(int64_t rows) { return rows < BACKWARD_BLOCKS ? (int)rows : (int)BACKWARD_BLOCKS; }

template <typename type, int PACKS, bool CENTRED, bool LONGEST, int THREADS>
static void backward_with(const backward_call &c, int blocks, cudaStream_t stream)
{
    int threads = threads_for(parts_of(c.n / pack<type>::LENGTH, PACKS), THREADS);
    LAUNCH((norm_backward_packs<type, PACKS, CENTRED, LONGEST, THREADS>), blocks, threads,
           sizeof(backward_shared<type, PACKS, CENTRED, LONGEST, THREADS>), stream, c);
}

template <typename type, bool CENTRED>
static void backward_of(const backward_call &c, bool fast, int blocks, cudaStream_t stream)
{
    int count = c.n / pack<type>::LENGTH;
    bool fits = sizeof(backward_shared<type, 3, CENTRED, true, 768>) <= cuda_shared_memory();
    if (!fast || (count > 1024 && !fits))
        LAUNCH(norm_backward_plain<CENTRED>, blocks, PLAIN_THREADS, sizeof(plain_shared), stream, c);
    else if (count <= 512) backward_with<type, 1, CENTRED, false, 512>(c, blocks, stream);
    else if (count <= 1024) backward_with<type, 2, CENTRED, false, 512>(c, blocks, stream);
    else backward_with<type, 3, CENTRED, true, 768>(c, blocks, stream);
}

size_t cuda_norm_backward_scratch(const cuda_call *o)
{
    int gradients = o->x[7].dims > 0 ? 2 : 1;
    return (size_t)(gradients * backward_blocks(rows_of(o->x[1])) * columns_of(o->x[1])) * sizeof(float);
}

/* Computes the gradient in operand `which` from the blocks' sums. */
static void sum_blocks(const cuda_call *o, int which, const float *partial, int blocks, int n)
{
    LAUNCH(norm_gain_sum, (unsigned)parts_of(n, WARP), LARGEST_BLOCK, sizeof(lane_sums), o->stream,
           static_cast<float *>(o->x[which].data), o->update[which], partial, blocks, n);
}

void cuda_norm_backward(const cuda_call *o)
{
    const tensor d_out = merged(o->x[0]), x = merged(o->x[1]), gain = merged(o->x[3]), dx = merged(o->x[4]);
    const tensor all[] = { d_out, x, gain, dx };
    const float *rstd = floats_of(o->x[2]), *mean = floats_of(o->x[6]);
    float *partial = static_cast<float *>(o->scratch);
    int rows = (int)rows_of(x), n = (int)columns_of(x), blocks = backward_blocks(rows);
    backward_call c = { d_out, x, gain, dx, rstd, mean, partial, rows, n, o->update[4] };
    bool fast = n <= 3 * 768 * (x.type == BF16 ? 8 : 4) && uniform(all, 4);
    with_type(x.type, [&](auto zero) {
        if (mean) backward_of<decltype(zero), true>(c, fast, blocks, o->stream);
        else backward_of<decltype(zero), false>(c, fast, blocks, o->stream);
    });
    sum_blocks(o, 5, partial, blocks, n);
    if (mean) sum_blocks(o, 7, partial + blocks * (int64_t)n, blocks, n);
}
