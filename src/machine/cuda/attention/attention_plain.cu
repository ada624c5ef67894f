/* Attention in FP32, for operands of any format, without tensor cores. A thread block owns 32 positions of one head,
 * four per warp, and visits tiles of 32 others. Each lane computes one column of a tile of scores. */
#include "machine/cuda/attention/attention_tile.cuh"

enum {
    PLAIN_WARPS = 8,
    PLAIN_THREADS = PLAIN_WARPS * WARP,
    ROWS = 4,
    PLAIN_OWN = PLAIN_WARPS * ROWS,
    PLAIN_OTHER = WARP
};
static_assert(PLAIN_OWN == PLAIN_OTHER, "tiles of own and of other positions are of one size");

/* Rows of a head dim of at most `width`. One unused element per row lets lanes read different banks. */
template <int width> struct plain_tile {
    float at[PLAIN_OTHER][width + 1];
};
struct plain_weights {
    float at[PLAIN_WARPS][ROWS][PLAIN_OTHER];
};
template <int width> struct plain_memory {
    plain_tile<width> own[2], other[2];
    plain_weights p, ds;
};

/* For each row of a warp: the score in the lane's column, and sums for the head's columns lane, lane + 32, ... */
struct plain_scores {
    float at[ROWS];
};
template <int width> struct plain_sums {
    float at[ROWS][width / WARP];
};

template <int width>
static __device__ __forceinline__ void load_plain(plain_tile<width> &to, const head_view &x, int batch, int head,
                                                  int first)
{
    for (int row = warp(); row < PLAIN_OTHER; row += PLAIN_WARPS) {
        const int64_t from = row_offset(x, batch, head, first + row);
        for (int i = lane(); i < x.d; i += WARP) to.at[row][i] = first + row < x.positions ? get(x, from + i) : 0.0f;
    }
}

template <int width>
static __device__ __forceinline__ plain_scores scores_of(const plain_tile<width> &own, const plain_tile<width> &other,
                                                         int d)
{
    plain_scores x = {};
    for (int i = 0; i < d; i++) UNROLL
    for (int r = 0; r < ROWS; r++) x.at[r] = fmaf(own.at[warp() * ROWS + r][i], other.at[lane()][i], x.at[r]);
    return x;
}

/* Adds the warp's weights times the other positions' rows. Lanes exchange the weights through shared memory. */
template <int width>
static __device__ __forceinline__ void add_rows(plain_sums<width> &sums, plain_weights &memory,
                                                const plain_scores &weights, const plain_tile<width> &other, int d)
{
    UNROLL
    for (int r = 0; r < ROWS; r++) memory.at[warp()][r][lane()] = weights.at[r];
    __syncwarp();
    for (int j = 0; j < PLAIN_OTHER; j++) UNROLL
    for (int part = 0; part < width / WARP; part++) {
        if (part * WARP + lane() >= d) continue;
        UNROLL
        for (int r = 0; r < ROWS; r++)
            sums.at[r][part] = fmaf(memory.at[warp()][r][j], other.at[j][part * WARP + lane()], sums.at[r][part]);
    }
}

template <int width>
static __device__ __forceinline__ void put_sums(const head_view &to, int batch, int head, int first,
                                                const plain_sums<width> &sums, const float *factor)
{
    UNROLL
    for (int r = 0; r < ROWS; r++) UNROLL
    for (int part = 0; part < width / WARP; part++)
        if (first + r < to.positions && part * WARP + lane() < to.d)
            put(to, row_offset(to, batch, head, first + r) + part * WARP + lane(), sums.at[r][part] * factor[r]);
}

/* Raises maxima, scales down earlier sums, and turns scores into exp(score - maximum). */
template <int width>
static __device__ __forceinline__ void to_weights(plain_scores &x, float *maximum, float *total, plain_sums<width> &out)
{
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        const float largest = fmaxf(maximum[r], warp_maximum(x.at[r])), rescale = exp_shared(maximum[r] - largest);
        x.at[r] = x.at[r] == -INFINITY ? 0.0f : exp_shared(x.at[r] - largest);
        maximum[r] = largest;
        total[r] = total[r] * rescale + warp_sum(x.at[r]);
        UNROLL
        for (int part = 0; part < width / WARP; part++) out.at[r][part] *= rescale;
    }
}

/* Grid: tiles of queries, heads, batch. */
template <int width> KERNEL(PLAIN_THREADS) attention_forward_plain(attention_problem a)
{
    typedef plain_memory<width> memory_type;
    SHARED(memory_type, memory);
    const int batch = blockIdx.z, head = blockIdx.y, kv_head = head / a.group,
              start = (gridDim.x - 1 - blockIdx.x) * PLAIN_OWN;
    const int first = start + warp() * ROWS, keys = keys_before(a, start + PLAIN_OWN);
    float maximum[ROWS], total[ROWS] = {}, factor[ROWS];
    plain_sums<width> out = {};
    for (int r = 0; r < ROWS; r++) maximum[r] = -INFINITY;
    load_plain(memory.own[0], a.q, batch, head, start);
    for (int start_key = 0; start_key < keys; start_key += PLAIN_OTHER) {
        const int key = start_key + lane();
        __syncthreads();
        load_plain(memory.other[0], a.k, batch, kv_head, start_key);
        load_plain(memory.other[1], a.v, batch, kv_head, start_key);
        __syncthreads();
        plain_scores x = scores_of(memory.own[0], memory.other[0], a.d);
        for (int r = 0; r < ROWS; r++) x.at[r] = key < keys_before(a, first + r + 1) ? x.at[r] * a.scale : -INFINITY;
        to_weights(x, maximum, total, out);
        add_rows(out, memory.p, x, memory.other[1], a.d);
    }
    for (int r = 0; r < ROWS; r++) {
        factor[r] = 1.0f / total[r];
        if (first + r < a.s && lane() == 0)
            a.lse[batch * a.lse_batch + head * a.lse_head + first + r] = maximum[r] + logf(total[r]);
    }
    put_sums(a.out, batch, head, first, out, factor);
}

/* Computes p and ds = p (dp - D) between own positions (rows own[0], own[1]) and other positions. */
template <int width>
static __device__ __forceinline__ void gradients_of(plain_scores &p, plain_scores &ds,
                                                    const plain_memory<width> &memory, const attention_problem &a,
                                                    const float *lse, const float *dot, const bool *seen)
{
    p = scores_of(memory.own[0], memory.other[0], a.d);
    ds = scores_of(memory.own[1], memory.other[1], a.d);
    UNROLL
    for (int r = 0; r < ROWS; r++) {
        p.at[r] = seen[r] ? probability_shared(p.at[r] * a.scale, lse[r]) : 0.0f;
        ds.at[r] = score_gradient(p.at[r], ds.at[r], dot[r]) * a.scale;
    }
}

static __device__ __forceinline__ float lse_of(const attention_problem &a, int batch, int head, int position)
{
    return position < a.s ? a.lse[batch * a.lse_batch + head * a.lse_head + position] : 0.0f;
}

/* Returns the place of D = rowsum(d_out * out) of a head in scratch. */
static __device__ __forceinline__ float *dot_of(const attention_problem &a, int batch, int head)
{
    return a.statistics + ((int64_t)batch * a.heads + head) * a.padded;
}

static KERNEL(PLAIN_THREADS) attention_dots_plain(attention_problem a)
{
    const int batch = blockIdx.z, head = blockIdx.y, position = blockIdx.x * PLAIN_WARPS + warp();
    const int64_t out = row_offset(a.out, batch, head, position), d_out = row_offset(a.d_out, batch, head, position);
    float dot = 0.0f;
    for (int i = lane(); position < a.s && i < a.d; i += WARP)
        dot = fmaf(get(a.out, out + i), get(a.d_out, d_out + i), dot);
    dot = warp_sum(dot);
    if (lane() == 0) dot_of(a, batch, head)[position] = dot;
}

/* Grid: tiles of keys, kv heads, batch. */
template <int width> KERNEL(PLAIN_THREADS) attention_key_gradients_plain(attention_problem a)
{
    typedef plain_memory<width> memory_type;
    SHARED(memory_type, memory);
    const int batch = blockIdx.z, kv_head = blockIdx.y, start = blockIdx.x * PLAIN_OWN, first = start + warp() * ROWS;
    const float one[ROWS] = { 1.0f, 1.0f, 1.0f, 1.0f };
    plain_sums<width> dk = {}, dv = {};
    load_plain(memory.own[0], a.k, batch, kv_head, start);
    load_plain(memory.own[1], a.v, batch, kv_head, start);
    for (int head = kv_head * a.group; head < (kv_head + 1) * a.group; head++)
        for (int start_query = first_query_of(a, start, PLAIN_OTHER); start_query < a.s; start_query += PLAIN_OTHER) {
            const int query = start_query + lane();
            const float lse = lse_of(a, batch, head, query), dot = dot_of(a, batch, head)[query];
            float lses[ROWS], dots[ROWS];
            bool seen[ROWS];
            plain_scores p, ds;
            __syncthreads();
            load_plain(memory.other[0], a.q, batch, head, start_query);
            load_plain(memory.other[1], a.d_out, batch, head, start_query);
            __syncthreads();
            for (int r = 0; r < ROWS; r++)
                lses[r] = lse, dots[r] = dot, seen[r] = query < a.s && first + r < keys_before(a, query + 1);
            gradients_of(p, ds, memory, a, lses, dots, seen);
            add_rows(dv, memory.p, p, memory.other[1], a.d);
            add_rows(dk, memory.ds, ds, memory.other[0], a.d);
        }
    put_sums(a.dk, batch, kv_head, first, dk, one);
    put_sums(a.dv, batch, kv_head, first, dv, one);
}

/* Grid: tiles of queries, heads, batch. */
template <int width> KERNEL(PLAIN_THREADS) attention_query_gradients_plain(attention_problem a)
{
    typedef plain_memory<width> memory_type;
    SHARED(memory_type, memory);
    const int batch = blockIdx.z, head = blockIdx.y, kv_head = head / a.group,
              start = (gridDim.x - 1 - blockIdx.x) * PLAIN_OWN;
    const int first = start + warp() * ROWS, keys = keys_before(a, start + PLAIN_OWN);
    const float one[ROWS] = { 1.0f, 1.0f, 1.0f, 1.0f };
    float lse[ROWS], dot[ROWS];
    plain_sums<width> dq = {};
    for (int r = 0; r < ROWS; r++)
        lse[r] = lse_of(a, batch, head, first + r), dot[r] = dot_of(a, batch, head)[first + r];
    load_plain(memory.own[0], a.q, batch, head, start);
    load_plain(memory.own[1], a.d_out, batch, head, start);
    for (int start_key = 0; start_key < keys; start_key += PLAIN_OTHER) {
        const int key = start_key + lane();
        bool seen[ROWS];
        plain_scores p, ds;
        __syncthreads();
        load_plain(memory.other[0], a.k, batch, kv_head, start_key);
        load_plain(memory.other[1], a.v, batch, kv_head, start_key);
        __syncthreads();
        for (int r = 0; r < ROWS; r++) seen[r] = key < keys_before(a, first + r + 1);
        gradients_of(p, ds, memory, a, lse, dot, seen);
        add_rows(dq, memory.ds, ds, memory.other[0], a.d);
    }
    put_sums(a.dq, batch, head, first, dq, one);
}

template <int width> static void launch_forward_plain(const cuda_call *c)
{
    attention_problem a = problem_of(c);
    LAUNCH((attention_forward_plain<width>), dim3(tiles_of(a.s, PLAIN_OWN), a.heads, a.b), PLAIN_THREADS,
           sizeof(plain_memory<width>), c->stream, a);
}

template <int width> static void launch_backward_plain(const cuda_call *c)
{
    attention_problem a = problem_of(c);
    dim3 rows(a.padded / PLAIN_WARPS, a.heads, a.b), keys(tiles_of(a.t, PLAIN_OWN), a.kv_heads, a.b);
    dim3 queries(tiles_of(a.s, PLAIN_OWN), a.heads, a.b);
    LAUNCH(attention_dots_plain, rows, PLAIN_THREADS, 0, c->stream, a);
    LAUNCH((attention_key_gradients_plain<width>), keys, PLAIN_THREADS, sizeof(plain_memory<width>), c->stream, a);
    LAUNCH((attention_query_gradients_plain<width>), queries, PLAIN_THREADS, sizeof(plain_memory<width>), c->stream, a);
}

/* Heads of up to 128 fit into the shared memory of every GPU. Larger heads need 136 KiB per block. */
XGSW_EXTERN void plain_attention_forward(const cuda_call *c)
{
    c->x[Q].dim[3] <= 128 ? launch_forward_plain<128>(c) : launch_forward_plain<LARGEST_HEAD_DIM>(c);
}

XGSW_EXTERN size_t plain_attention_backward_scratch(const cuda_call *c)
{
    attention_problem a = problem_of(c);
    return (size_t)a.b * a.heads * a.padded * sizeof(float);
}

XGSW_EXTERN void plain_attention_backward(const cuda_call *c)
{
    c->x[Q].dim[3] <= 128 ? launch_backward_plain<128>(c) : launch_backward_plain<LARGEST_HEAD_DIM>(c);
}
