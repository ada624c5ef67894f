/* RMS norm with an optional addition before it (Zhang & Sennrich 2019). Each element is read once and written once: a
 * block holds a row in registers. [8192, 4096] BF16: forward with addition 268 MB (x, delta, sum, out) by 8192 blocks
 * of 128 threads; backward that adds 268 MB (d_out, x, dx twice) by 264 blocks of 512, each of which fetches its next
 * row before it sums the present one, and 8 MB for the gain's gradient. Rows of mixed formats, odd length or alignment
 * take plain kernels. */
#include "machine/cuda/kernels/element.cuh"
#include "machine/cuda/kernels/kernels.h"

/* Backward blocks: two for each multiprocessor of an H100, and no more anywhere, so that sums have one order. */
enum { FORWARD_PACKS = 4, BACKWARD_BLOCKS = 264, LARGEST_BLOCK = 1024, PLAIN_THREADS = 256 };

struct warp_sums {
    float of[WARP];
};

/* ---- rows in registers ---- */

/* This thread's packs of a matrix's row of n columns: every blockDim-th one; zeros beyond the end, which add nothing to
 * sums. */
template <typename type, int PACKS>
static __device__ __forceinline__ void fetch(pack<type> (&to)[PACKS], const tensor &t, int row, int n)
{
    const pack<type> *from =
        reinterpret_cast<const pack<type> *>(static_cast<const type *>(t.data) + row * t.stride[0]);
    for (int k = 0; k < PACKS; k++) {
        int at = threadIdx.x + k * blockDim.x;
        to[k] = at < n / pack<type>::LENGTH ? from[at] : pack<type>{};
    }
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

/* Matrices of one format, in packs. An absent operand is like the others. */
static bool uniform(const tensor *all, int count)
{
    for (int i = 0; i < count; i++)
        if (all[i].dims > 2 ||
            (all[i].dims > 0 && (all[i].type != all[0].type || !packs(all[i], all[0].type == BF16 ? 8 : 4))))
            return false;
    return true;
}

/* ---- forward ---- */

struct forward_call {
    tensor x, delta, gain, sum, out;
    float *rstd, epsilon;
    int n;
};

static __device__ __forceinline__ float rstd_of(const forward_call &c, float squares)
{
    return 1.0f / sqrtf(squares / (float)c.n + c.epsilon);
}

/* x += delta, rounded, and the sum of the squares of what it is then. */
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

template <typename type, int PACKS> KERNEL(LARGEST_BLOCK) norm_forward_packs(forward_call c)
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
    fetch(other, c.gain, 0, c.n);
    float rstd = rstd_of(c, block_sum(squares_of(x), partial.of));
    if (threadIdx.x == 0) c.rstd[row] = rstd;
    for (int k = 0; k < PACKS; k++) {
        float y[pack<type>::LENGTH];
        for (int i = 0; i < pack<type>::LENGTH; i++) y[i] = get(x[k], i) * rstd * get(other[k], i);
        narrow(x[k], y);
    }
    store(c.out, row, c.n, x);
}

KERNEL(PLAIN_THREADS) norm_forward_plain(forward_call c)
{
    SHARED(warp_sums, partial);
    int row = blockIdx.x, n = c.n;
    bool adds = c.delta.dims > 0;
    line x = line_of(c.x, row), sum = adds ? line_of(c.sum, row) : x, gain = line_of(c.gain, 0),
         out = line_of(c.out, row);
    float squares = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (adds) put(sum, i, get(x, i) + get(line_of(c.delta, row), i));
        squares = fmaf(get(sum, i), get(sum, i), squares);
    }
    float rstd = rstd_of(c, block_sum(squares, partial.of));
    if (threadIdx.x == 0) c.rstd[row] = rstd;
    for (int i = threadIdx.x; i < n; i += blockDim.x) put(out, i, get(sum, i) * rstd * get(gain, i));
}

template <typename type> static void forward_of(const forward_call &c, int rows, cudaStream_t stream)
{
    int threads = threads_for(parts_of(c.n / pack<type>::LENGTH, FORWARD_PACKS), LARGEST_BLOCK);
    LAUNCH((norm_forward_packs<type, FORWARD_PACKS>), rows, threads, sizeof(warp_sums), stream, c);
}

void cuda_norm_forward(const cuda_call *o)
{
    const tensor x = merged(o->x[0]), delta = merged(o->x[1]), gain = merged(o->x[2]), sum = merged(o->x[3]),
                 out = merged(o->x[4]);
    const tensor all[] = { x, delta, gain, sum, out };
    forward_call c = {
        x, delta, gain, sum, out, static_cast<float *>(o->x[5].data), o->args.norm.epsilon, (int)columns_of(x)
    };
    int rows = (int)rows_of(x);
    bool holds = c.n <= LARGEST_BLOCK * FORWARD_PACKS * (x.type == BF16 ? 8 : 4);
    if (holds && uniform(all, 5)) with_type(x.type, [&](auto zero) { forward_of<decltype(zero)>(c, rows, o->stream); });
    else LAUNCH(norm_forward_plain, rows, PLAIN_THREADS, sizeof(warp_sums), o->stream, c);
}

/* ---- backward: with unit = x rstd and d_unit = d_out gain, dx = rstd (d_unit - unit mean(d_unit unit)),
 * d gain = sum over rows of d_out unit ---- */

struct backward_call {
    tensor d_out, x, gain, dx;
    const float *rstd;
    float *partial;
    int rows, n;
    bool adds;
};

static __device__ __forceinline__ float projection_of(const backward_call &c, float sum, float rstd)
{
    return sum * rstd / (float)c.n * rstd * rstd;
}

/* A row of the gradient of the output, and of the input. */
template <typename type, int PACKS> struct held {
    pack<type> d[PACKS], x[PACKS];
};

template <typename type, int PACKS>
static __device__ __forceinline__ void fetch_both(held<type, PACKS> &to, const backward_call &c, int row)
{
    fetch(to.d, c.d_out, row, c.n);
    fetch(to.x, c.x, row, c.n);
}

/* The row's part of the gain's gradient is added to gain_sum; returns this thread's part of the sum of d_unit x. */
template <typename type, int PACKS>
static __device__ __forceinline__ float project(const held<type, PACKS> &row, const pack<type> (&gain)[PACKS],
                                                float rstd, float *gain_sum)
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
static __device__ __forceinline__ void derive(pack<type> (&dx)[PACKS], bool adds, const held<type, PACKS> &row,
                                              const pack<type> (&gain)[PACKS], float rstd, float projection)
{
    for (int k = 0; k < PACKS; k++) {
        float sum[pack<type>::LENGTH];
        for (int i = 0; i < pack<type>::LENGTH; i++)
            sum[i] = derivative(get(row.d[k], i), get(row.x[k], i), get(gain[k], i), rstd, projection);
        for (int i = 0; adds && i < pack<type>::LENGTH; i++) sum[i] += get(dx[k], i);
        narrow(dx[k], sum);
    }
}

template <typename type, int PACKS>
static __device__ __forceinline__ void store_sums(const backward_call &c, const float *gain_sum)
{
    enum { LENGTH = pack<type>::LENGTH };
    for (int k = 0; k < PACKS; k++) {
        int at = (threadIdx.x + k * blockDim.x) * LENGTH;
        pack<float> *to = reinterpret_cast<pack<float> *>(c.partial + blockIdx.x * (int64_t)c.n + at);
        const float *sum = gain_sum + k * LENGTH;
        for (int i = 0; at < c.n && i < LENGTH; i += 4) to[i / 4] = { { sum[i], sum[i + 1], sum[i + 2], sum[i + 3] } };
    }
}

/* Each thread's sums over rows: in registers, or for the longest rows here, where lengths that are no multiple of 32
 * words keep threads out of each other's banks. */
template <typename type, int PACKS, bool LONGEST, int THREADS> struct backward_shared {
    enum { SUMS = PACKS * pack<type>::LENGTH };
    warp_sums partial;
    float gain_sum[LONGEST ? THREADS : 1][SUMS + 4];
};

/* Rows blockIdx, blockIdx + blocks, ... The next row is on its way while this one is summed; the longest leave no
 * registers for that, nor for gain and dx meanwhile. */
template <typename type, int PACKS, bool LONGEST, int THREADS> KERNEL(THREADS) norm_backward_packs(backward_call c)
{
    typedef backward_shared<type, PACKS, LONGEST, THREADS> shared_type;
    SHARED(shared_type, shared);
    float held_sum[shared_type::SUMS] = {}, *gain_sum = LONGEST ? shared.gain_sum[threadIdx.x] : held_sum;
    held<type, PACKS> row, next;
    int blocks = gridDim.x;
    for (int i = 0; i < shared_type::SUMS; i++) gain_sum[i] = 0.0f;
    if (!LONGEST) fetch_both(next, c, blockIdx.x);
    for (int at = blockIdx.x; at < c.rows; at += blocks) {
        pack<type> dx[PACKS] = {}, gain[PACKS];
        float rstd = c.rstd[at];
        if (LONGEST) fetch_both(row, c, at);
        else row = next;
        if (!LONGEST && c.adds) fetch(dx, c.dx, at, c.n);
        fetch(gain, c.gain, 0, c.n);
        if (!LONGEST && at + blocks < c.rows) fetch_both(next, c, at + blocks);
        float sum = block_sum(project(row, gain, rstd, gain_sum), shared.partial.of);
        if (LONGEST && c.adds) fetch(dx, c.dx, at, c.n);
        if (LONGEST) fetch(gain, c.gain, 0, c.n);
        derive(dx, c.adds, row, gain, rstd, projection_of(c, sum, rstd));
        store(c.dx, at, c.n, dx);
    }
    store_sums<type, PACKS>(c, gain_sum);
}

/* A row of the plain kernel; each thread adds to its own columns of the block's sums. */
static __device__ __forceinline__ void plain_row(const backward_call &c, int row, float *gain_sum, float *partial)
{
    line d = line_of(c.d_out, row), x = line_of(c.x, row), gain = line_of(c.gain, 0), dx = line_of(c.dx, row);
    float rstd = c.rstd[row], sum = 0.0f;
    for (int i = threadIdx.x; i < c.n; i += blockDim.x) {
        float product = get(d, i) * get(x, i);
        gain_sum[i] = fmaf(product, rstd, gain_sum[i]);
        sum = fmaf(product, get(gain, i), sum);
    }
    float projection = projection_of(c, block_sum(sum, partial), rstd);
    for (int i = threadIdx.x; i < c.n; i += blockDim.x) {
        float own = derivative(get(d, i), get(x, i), get(gain, i), rstd, projection);
        put(dx, i, c.adds ? get(dx, i) + own : own);
    }
}

KERNEL(PLAIN_THREADS) norm_backward_plain(backward_call c)
{
    SHARED(warp_sums, partial);
    float *gain_sum = c.partial + blockIdx.x * (int64_t)c.n;
    for (int i = threadIdx.x; i < c.n; i += blockDim.x) gain_sum[i] = 0.0f;
    for (int row = blockIdx.x; row < c.rows; row += gridDim.x) plain_row(c, row, gain_sum, partial.of);
}

/* The blocks' sums of one column a lane: each warp adds an equal share of the blocks in order, then the first one the
 * shares. */
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

template <typename type, int PACKS, bool LONGEST, int THREADS>
static void backward_with(const backward_call &c, int blocks, cudaStream_t stream)
{
    int threads = threads_for(parts_of(c.n / pack<type>::LENGTH, PACKS), THREADS);
    LAUNCH((norm_backward_packs<type, PACKS, LONGEST, THREADS>), blocks, threads,
           sizeof(backward_shared<type, PACKS, LONGEST, THREADS>), stream, c);
}

template <typename type> static void backward_of(const backward_call &c, int blocks, cudaStream_t stream)
{
    int count = c.n / pack<type>::LENGTH;
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
    int rows = (int)rows_of(x), n = (int)columns_of(x);
    backward_call c = { d_out, x, gain, dx, static_cast<const float *>(o->x[2].data), partial, rows, n, o->update[4] };
    int blocks = backward_blocks(rows);
    bool holds = n <= 3 * 768 * (x.type == BF16 ? 8 : 4);
    if (holds && uniform(all, 4))
        with_type(x.type, [&](auto zero) { backward_of<decltype(zero)>(c, blocks, o->stream); });
    else LAUNCH(norm_backward_plain, blocks, PLAIN_THREADS, sizeof(warp_sums), o->stream, c);
    LAUNCH(norm_gain_sum, (unsigned)parts_of(n, WARP), LARGEST_BLOCK, sizeof(lane_sums), o->stream, to, o->update[5],
           partial, blocks, n);
}
