/* RMS norm with an optional addition before it (Zhang & Sennrich 2019). Each element is read once and written once: a block
 * holds a row in registers. [8192, 4096] BF16: forward with addition 268 MB (x, delta, sum, out) by 8192 blocks of 128 threads;
 * backward that adds 268 MB (d_out, x, dx twice) by 264 blocks of 512, each of which fetches its next row before it sums the
 * present one, and 8 MB for the gain's gradient. Rows of mixed formats, odd length or alignment take plain kernels. */
#include "machine/cuda/element.cuh"
#include "machine/cuda/kernels.h"

/* Backward blocks: two for each multiprocessor of an H100, and no more anywhere, so that sums have one order. */
enum { FORWARD_PACKS = 4, BACKWARD_BLOCKS = 264, LARGEST_BLOCK = 1024, PLAIN_THREADS = 256 };

struct warp_sums { float of[WARP]; };

/* ---- rows in registers ---- */

/* This thread's packs of a row: every blockDim-th one; zeros beyond the end, which add nothing to sums. */
template <typename type, int PACKS> static __device__ __forceinline__ void fetch(pack<type> (&to)[PACKS], const tensor &t, int64_t row)
{
    const pack<type> *from = reinterpret_cast<const pack<type> *>(row_of<type>(t, row));
    int count = (int)columns_of(t) / pack<type>::LENGTH;
    for (int k = 0; k < PACKS; k++) {
        int at = threadIdx.x + k * blockDim.x;
        to[k] = at < count ? from[at] : pack<type>{};
    }
}

template <typename type, int PACKS> static __device__ __forceinline__ void store(const tensor &t, int64_t row, const pack<type> (&from)[PACKS])
{
    pack<type> *to = reinterpret_cast<pack<type> *>(row_of<type>(t, row));
    int count = (int)columns_of(t) / pack<type>::LENGTH;
    for (int k = 0; k < PACKS; k++) {
        int at = threadIdx.x + k * blockDim.x;
        if (at < count) to[at] = from[k];
    }
}

/* ---- forward ---- */

struct forward_call { tensor x, delta, gain, sum, out; float *rstd, epsilon; };

static __device__ __forceinline__ float rstd_of(const forward_call &c, float squares)
{
    return 1.0f / sqrtf(squares / (float)columns_of(c.x) + c.epsilon);
}

/* x += delta, rounded, and the sum of the squares of what it is then. */
template <typename type, int PACKS> static __device__ __forceinline__ void add(pack<type> (&x)[PACKS], const pack<type> (&delta)[PACKS])
{
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < pack<type>::LENGTH; i++) put(x[k], i, get(x[k], i) + get(delta[k], i));
}

template <typename type, int PACKS> static __device__ __forceinline__ float squares_of(const pack<type> (&x)[PACKS])
{
    float sum = 0.0f;
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < pack<type>::LENGTH; i++) sum = fmaf(get(x[k], i), get(x[k], i), sum);
    return sum;
}

template <typename type, int PACKS> KERNEL(LARGEST_BLOCK) norm_forward_packs(forward_call c)
{
    SHARED(warp_sums, partial);
    int64_t row = blockIdx.x;
    pack<type> x[PACKS], other[PACKS];
    fetch(x, c.x, row);
    if (c.delta.dims > 0) {
        fetch(other, c.delta, row);
        add(x, other);
        store(c.sum, row, x);
    }
    fetch(other, c.gain, 0);
    float rstd = rstd_of(c, block_sum(squares_of(x), partial.of));
    if (threadIdx.x == 0) c.rstd[row] = rstd;
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < pack<type>::LENGTH; i++) put(x[k], i, get(x[k], i) * rstd * get(other[k], i));
    store(c.out, row, x);
}

KERNEL(PLAIN_THREADS) norm_forward_plain(forward_call c)
{
    SHARED(warp_sums, partial);
    int64_t row = blockIdx.x, n = columns_of(c.x);
    bool adds = c.delta.dims > 0;
    line x = line_of(c.x, row), sum = adds ? line_of(c.sum, row) : x, gain = line_of(c.gain, 0), out = line_of(c.out, row);
    float squares = 0.0f;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        if (adds) put(sum, i, get(x, i) + get(line_of(c.delta, row), i));
        squares = fmaf(get(sum, i), get(sum, i), squares);
    }
    float rstd = rstd_of(c, block_sum(squares, partial.of));
    if (threadIdx.x == 0) c.rstd[row] = rstd;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) put(out, i, get(sum, i) * rstd * get(gain, i));
}

/* All of one format and in packs. An absent operand is like the others. */
static bool uniform(const tensor *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i].dims > 0 && (all[i].type != all[0].type || !packs(all[i], all[0].type == BF16 ? 8 : 4))) return false;
    return true;
}

template <typename type> static void forward_of(const forward_call &c, int rows, cudaStream_t stream)
{
    int threads = threads_for(parts_of(columns_of(c.x) / pack<type>::LENGTH, FORWARD_PACKS), LARGEST_BLOCK);
    LAUNCH((norm_forward_packs<type, FORWARD_PACKS>), rows, threads, sizeof(warp_sums), stream, c);
}

void cuda_norm_forward(const cuda_call *o)
{
    const tensor x = merged(o->x[0]), delta = merged(o->x[1]), gain = merged(o->x[2]), sum = merged(o->x[3]), out = merged(o->x[4]);
    const tensor all[] = { x, delta, gain, sum, out };
    forward_call c = { x, delta, gain, sum, out, static_cast<float *>(o->x[5].data), o->args.norm.epsilon };
    int rows = (int)rows_of(x);
    bool holds = columns_of(x) <= LARGEST_BLOCK * FORWARD_PACKS * (x.type == BF16 ? 8 : 4);
    if (holds && uniform(all, 5)) with_type(x.type, [&](auto zero) { forward_of<decltype(zero)>(c, rows, o->stream); });
    else LAUNCH(norm_forward_plain, rows, PLAIN_THREADS, sizeof(warp_sums), o->stream, c);
}

/* ---- backward: with unit = x rstd and d_unit = d_out gain, dx = rstd (d_unit - unit mean(d_unit unit)),
 * d gain = sum over rows of d_out unit ---- */

struct backward_call { tensor d_out, x, gain, dx; const float *rstd; float *partial; int64_t rows; bool adds; };

static __device__ __forceinline__ float projection_of(const backward_call &c, float sum, float rstd)
{
    return sum * rstd / (float)columns_of(c.x) * rstd * rstd;
}

/* A row of the gradient of the output, and of the input. */
template <typename type, int PACKS> struct held { pack<type> d[PACKS], x[PACKS]; };

template <typename type, int PACKS> static __device__ __forceinline__ void fetch_both(held<type, PACKS> &to, const backward_call &c, int64_t row)
{
    fetch(to.d, c.d_out, row);
    fetch(to.x, c.x, row);
}

/* The row's part of the gain's gradient is added to gain_sum; returns this thread's part of the sum of d_unit x. */
template <typename type, int PACKS>
static __device__ __forceinline__ float project(const held<type, PACKS> &row, const pack<type> (&gain)[PACKS], float rstd,
                                                float *gain_sum)
{
    float sum = 0.0f;
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < pack<type>::LENGTH; i++) {
            float product = get(row.d[k], i) * get(row.x[k], i);
            float &into = gain_sum[k * pack<type>::LENGTH + i];
            into = fmaf(product, rstd, into);
            sum = fmaf(product, get(gain[k], i), sum);
        }
    return sum;
}

static __device__ __forceinline__ float derivative(float d, float x, float gain, float rstd, float projection)
{
    return fmaf(d * gain, rstd, -(x * projection));
}

template <typename type, int PACKS>
static __device__ __forceinline__ void derive(pack<type> (&dx)[PACKS], bool adds, const held<type, PACKS> &row, const pack<type> (&gain)[PACKS],
                                              float rstd, float projection)
{
    for (int k = 0; k < PACKS; k++)
        for (int i = 0; i < pack<type>::LENGTH; i++) {
            float own = derivative(get(row.d[k], i), get(row.x[k], i), get(gain[k], i), rstd, projection);
            put(dx[k], i, adds ? get(dx[k], i) + own : own);
        }
}

template <typename type, int PACKS> static __device__ __forceinline__ void store_sums(const backward_call &c, const float *gain_sum)
{
    enum { LENGTH = pack<type>::LENGTH };
    int64_t n = columns_of(c.x);
    for (int k = 0; k < PACKS; k++) {
        int64_t at = (threadIdx.x + k * blockDim.x) * (int64_t)LENGTH;
        for (int i = 0; at < n && i < LENGTH; i++) c.partial[blockIdx.x * n + at + i] = gain_sum[k * LENGTH + i];
    }
}

/* Each thread's sums over rows: in registers, or for the longest rows here, where lengths that are no multiple of 32 words keep
 * threads out of each other's banks. */
template <typename type, int PACKS, bool LONGEST, int THREADS> struct backward_shared {
    enum { SUMS = PACKS * pack<type>::LENGTH };
    warp_sums partial;
    float gain_sum[LONGEST ? THREADS : 1][SUMS + 4];
};

/* Rows blockIdx, blockIdx + blocks, ... The next row is on its way while this one is summed; the longest leave no registers for
 * that, nor for dx meanwhile. */
template <typename type, int PACKS, bool LONGEST, int THREADS> KERNEL(THREADS) norm_backward_packs(backward_call c)
{
    typedef backward_shared<type, PACKS, LONGEST, THREADS> shared_type;
    SHARED(shared_type, shared);
    float held_sum[shared_type::SUMS] = {}, *gain_sum = LONGEST ? shared.gain_sum[threadIdx.x] : held_sum;
    held<type, PACKS> row, next;
    for (int i = 0; i < shared_type::SUMS; i++) gain_sum[i] = 0.0f;
    if (!LONGEST) fetch_both(next, c, blockIdx.x);
    for (int64_t at = blockIdx.x; at < c.rows; at += gridDim.x) {
        pack<type> dx[PACKS] = {}, gain[PACKS];
        float rstd = c.rstd[at];
        if (LONGEST) fetch_both(row, c, at);
        else row = next;
        if (!LONGEST && c.adds) fetch(dx, c.dx, at);
        fetch(gain, c.gain, 0);
        if (!LONGEST && at + gridDim.x < c.rows) fetch_both(next, c, at + gridDim.x);
        float sum = block_sum(project(row, gain, rstd, gain_sum), shared.partial.of);
        if (LONGEST && c.adds) fetch(dx, c.dx, at);
        derive(dx, c.adds, row, gain, rstd, projection_of(c, sum, rstd));
        store(c.dx, at, dx);
    }
    store_sums<type, PACKS>(c, gain_sum);
}

/* A row of the plain kernel; each thread adds to its own columns of the block's sums. */
static __device__ __forceinline__ void plain_row(const backward_call &c, int64_t row, float *gain_sum, float *partial)
{
    line d = line_of(c.d_out, row), x = line_of(c.x, row), gain = line_of(c.gain, 0), dx = line_of(c.dx, row);
    float rstd = c.rstd[row], sum = 0.0f;
    int64_t n = columns_of(c.x);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        float product = get(d, i) * get(x, i);
        gain_sum[i] = fmaf(product, rstd, gain_sum[i]);
        sum = fmaf(product, get(gain, i), sum);
    }
    float projection = projection_of(c, block_sum(sum, partial), rstd);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
        float own = derivative(get(d, i), get(x, i), get(gain, i), rstd, projection);
        put(dx, i, c.adds ? get(dx, i) + own : own);
    }
}

KERNEL(PLAIN_THREADS) norm_backward_plain(backward_call c)
{
    SHARED(warp_sums, partial);
    int64_t n = columns_of(c.x);
    float *gain_sum = c.partial + blockIdx.x * n;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) gain_sum[i] = 0.0f;
    for (int64_t row = blockIdx.x; row < c.rows; row += gridDim.x) plain_row(c, row, gain_sum, partial.of);
}

/* The blocks' sums of one column a lane: each warp adds an equal share of the blocks in order, then the first one the shares. */
struct lane_sums { float of[WARP][WARP]; };

KERNEL(LARGEST_BLOCK) norm_gain_sum(float *to, bool adds, const float *partial, int blocks, int64_t n)
{
    SHARED(lane_sums, sums);
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, share = (int)parts_of(blocks, WARP);
    int64_t column = blockIdx.x * (int64_t)WARP + lane;
    float sum = 0.0f;
    for (int block = warp * share; column < n && block < (warp + 1) * share && block < blocks; block++) sum += partial[block * n + column];
    sums.of[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= n) return;
    sum = adds ? to[column] : 0.0f;
    for (int i = 0; i < WARP; i++) sum += sums.of[i][lane];
    to[column] = sum;
}

static int backward_blocks(int64_t rows) { return rows < BACKWARD_BLOCKS ? (int)rows : (int)BACKWARD_BLOCKS; }

template <typename type, int PACKS, bool LONGEST, int THREADS> static void backward_with(const backward_call &c, int blocks, cudaStream_t stream)
{
    int threads = threads_for(parts_of(columns_of(c.x) / pack<type>::LENGTH, PACKS), THREADS);
    LAUNCH((norm_backward_packs<type, PACKS, LONGEST, THREADS>), blocks, threads, sizeof(backward_shared<type, PACKS, LONGEST, THREADS>), stream, c);
}

template <typename type> static void backward_of(const backward_call &c, int blocks, cudaStream_t stream)
{
    int64_t count = columns_of(c.x) / pack<type>::LENGTH;
    if (count <= 512) backward_with<type, 1, false, 512>(c, blocks, stream);
    else if (count <= 1024) backward_with<type, 2, false, 512>(c, blocks, stream);
    else backward_with<type, 3, true, 768>(c, blocks, stream);
}

size_t cuda_norm_backward_scratch(const cuda_call *o)
{
    return (size_t)(backward_blocks(rows_of(o->x[1])) * columns_of(o->x[1])) * sizeof(float);
}

void cuda_norm_backward(const cuda_call *o)
{
    const tensor d_out = merged(o->x[0]), x = merged(o->x[1]), gain = merged(o->x[3]), dx = merged(o->x[4]);
    const tensor all[] = { d_out, x, gain, dx };
    float *partial = static_cast<float *>(o->scratch), *to = static_cast<float *>(o->x[5].data);
    int64_t rows = rows_of(x), n = columns_of(x);
    backward_call c = { d_out, x, gain, dx, static_cast<const float *>(o->x[2].data), partial, rows, o->update[4] };
    int blocks = backward_blocks(rows);
    bool holds = n <= 3 * 768 * (x.type == BF16 ? 8 : 4);
    if (holds && uniform(all, 4)) with_type(x.type, [&](auto zero) { backward_of<decltype(zero)>(c, blocks, o->stream); });
    else LAUNCH(norm_backward_plain, blocks, PLAIN_THREADS, sizeof(warp_sums), o->stream, c);
    LAUNCH(norm_gain_sum, (unsigned)parts_of(n, WARP), LARGEST_BLOCK, sizeof(lane_sums), o->stream, to, o->update[5], partial, blocks, n);
}
