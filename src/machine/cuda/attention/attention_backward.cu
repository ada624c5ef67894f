/* Attention backward on tensor cores (Dao 2023, algorithm 2), without atomics. One kernel computes dk and dv: a block
 * owns a tile of keys and visits the queries of its group's heads in order. Another kernel computes dq: a block owns a
 * tile of queries and visits the keys. Both recompute weights from lse, and load the next tile during the current one.
 * If there are few tiles of keys, several blocks share a group of heads, and a third kernel adds their sums. */
#include "machine/cuda/attention/attention_tile.cuh"

enum { OWN = WARPS * 16 }; /* positions of a block: 16 per warp */
enum { SCALED_LSE, DOT, STATISTICS };

/* The number of key blocks that keeps a device busy: about two for each of Hopper's 132 SMs, doubled because the mask
 * makes blocks unequal. It is a power of two, like most shapes: 528 would split a group that already has 512 blocks. */
enum { ENOUGH_BLOCKS = 512 };

static __device__ __forceinline__ float *statistics_of(const attention_problem &a, int batch, int head)
{
    return a.statistics + ((int64_t)batch * a.heads + head) * STATISTICS * a.padded;
}

/* Returns a lane's part of the sum of out * d_out over one query's row. */
static __device__ __forceinline__ float lane_dot(const attention_problem &a, int64_t out, int64_t d_out)
{
    float dot = 0.0f;
    const bool packed = a.out.packed && a.out.is_bf16 && a.d_out.packed && a.d_out.is_bf16;
    for (int i = lane() * 8; packed && i < a.d; i += WARP * 8) {
        const pack<bf16> x = *reinterpret_cast<const pack<bf16> *>(static_cast<const bf16 *>(a.out.data) + out + i),
                         y = *reinterpret_cast<const pack<bf16> *>(static_cast<const bf16 *>(a.d_out.data) + d_out + i);
        for (int k = 0; k < 8; k++) dot = fmaf(get(x, k), get(y, k), dot);
    }
    for (int i = lane(); !packed && i < a.d; i += WARP) dot = fmaf(get(a.out, out + i), get(a.d_out, d_out + i), dot);
    return dot;
}

/* One warp per query: log2(e) lse, D = rowsum(d_out * out). Padding gets infinity (so its weights are 0) and D = 0. */
static KERNEL(TILE_THREADS) attention_statistics(attention_problem a)
{
    const int batch = blockIdx.z, head = blockIdx.y, position = blockIdx.x * WARPS + warp();
    const bool exists = position < a.s;
    float *statistics = statistics_of(a, batch, head), dot = 0.0f;
    const int64_t out = row_offset(a.out, batch, head, position), d_out = row_offset(a.d_out, batch, head, position);
    if (exists) dot = lane_dot(a, out, d_out);
    dot = warp_sum(dot);
    if (lane() == 0) {
        statistics[SCALED_LSE * a.padded + position] =
            exists ? a.lse[batch * a.lse_batch + head * a.lse_head + position] * LOG2_E : INFINITY;
        statistics[DOT * a.padded + position] = dot;
    }
}

/* The block's tiles, and two buffers for the tiles of `other` positions that it visits: one is used, one loaded. */
template <int other, int width> struct key_memory {
    tile<OWN, width> k, v;
    tile<other, width> q[2], d_out[2];
    float statistics[2][STATISTICS][other];
};
template <int other, int width> struct query_memory {
    tile<OWN, width> q, d_out;
    tile<other, width> k[2], v[2];
};

template <int other, int width>
static __device__ __forceinline__ void load_queries(key_memory<other, width> &to, int buffer,
                                                    const attention_problem &a, int batch, int head, int first)
{
    const float *from = statistics_of(a, batch, head) + first;
    load_tile(to.q[buffer], a.q, batch, head, first);
    load_tile(to.d_out[buffer], a.d_out, batch, head, first);
    for (unsigned i = threadIdx.x; i < STATISTICS * other / 4; i += TILE_THREADS) {
        const int kind = i / (other / 4), place = i % (other / 4) * 4;
        copy_async(&to.statistics[buffer][kind][place], from + kind * a.padded + place, true);
    }
}

/* Returns 2^(score - lse), limited to 1: at large scores, rounding of lse alone can make it millions. fminf hides a
 * NaN, but the output of forward has shown it. */
static __device__ __forceinline__ float weight_of(float score, float lse)
{
    return exp2_fast(fminf(score - lse, 0.0f));
}

/* Turns scores [key][query] into weights. */
template <int other>
static __device__ __forceinline__ void weights_of_keys(fragment<1, other> &x, const attention_problem &a,
                                                       const float *lse, int key, int query)
{
    const float factor = a.scale * LOG2_E;
    UNROLL
    for (int n = 0; n < other / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) x.at[0][n][e] = weight_of(x.at[0][n][e] * factor, lse[column_in(n, e)]);
    if (key + 15 <= query + a.key_offset) return;
    UNROLL
    for (int n = 0; n < other / 8; n++) UNROLL
    for (int e = 0; e < 4; e++)
        if (key + row_in(0, e) > query + column_in(n, e) + a.key_offset) x.at[0][n][e] = 0.0f;
}

/* Adds one tile of queries to the gradients of the warp's keys. p and ds are [key][query]. */
template <int other, int width, int columns>
static __device__ __forceinline__ void add_to_keys(fragment<1, columns> &dk, fragment<1, columns> &dv,
                                                   const key_memory<other, width> &memory, int buffer,
                                                   const attention_problem &a, int key, int query, int column)
{
    const float *lse = memory.statistics[buffer][SCALED_LSE], *dot = memory.statistics[buffer][DOT];
    const int own = warp() * 16;
    fragment<1, other> p, ds;
    rows_by_rows(p, memory.k, own, memory.q[buffer]);
    weights_of_keys(p, a, lse, key, query);
    add_product(dv, round_weights(p), memory.d_out[buffer], column);
    rows_by_rows(ds, memory.v, own, memory.d_out[buffer]);
    UNROLL
    for (int n = 0; n < other / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) ds.at[0][n][e] = score_gradient(p.at[0][n][e], ds.at[0][n][e], dot[column_in(n, e)]);
    add_product(dk, round_weights(ds), memory.q[buffer], column);
}

/* The head and the first query of a tile to visit. */
struct query_place {
    int head, query;
};

/* Grid: tiles of keys, (share of a group, part of the columns of dk and dv), batch. The first blocks have the early
 * keys, which most queries see. */
template <int other, int width, int columns> KERNEL(TILE_THREADS) attention_key_gradients(attention_problem a)
{
    typedef key_memory<other, width> memory_type;
    SHARED(memory_type, memory);
    const int column_parts = width / columns, column = blockIdx.y % column_parts * columns;
    const int batch = blockIdx.z, share = blockIdx.y / column_parts, start = blockIdx.x * OWN,
              first = start + warp() * 16;
    const int first_query = first_query_of(a, start, other), heads = (share + 1) * a.share_heads,
              kv_head = (heads - 1) / a.group;
    fragment<1, columns> dk, dv;
    clear(dk);
    clear(dv);
    query_place now = { heads - a.share_heads, first_query }, next;
    load_tile(memory.k, a.k, batch, kv_head, start);
    load_tile(memory.v, a.v, batch, kv_head, start);
    load_queries(memory, 0, a, batch, now.head, now.query);
    copy_async_commit();
    for (int buffer = 0; now.head < heads; buffer = 1 - buffer, now = next) {
        next = now.query + other < a.s ? query_place{ now.head, now.query + other }
                                       : query_place{ now.head + 1, first_query };
        copy_async_wait();
        __syncthreads();
        if (next.head < heads) load_queries(memory, 1 - buffer, a, batch, next.head, next.query);
        copy_async_commit();
        if (first < keys_before(a, now.query + other)) add_to_keys(dk, dv, memory, buffer, a, first, now.query, column);
    }
    const float one[1][2] = { { 1.0f, 1.0f } }, scale[1][2] = { { a.scale, a.scale } };
    put_fragment(a.share_dv, batch, share, first, column, dv, one);
    put_fragment(a.share_dk, batch, share, first, column, dk, scale);
}

static __device__ __forceinline__ void join_pair(const head_view &to, const head_view &from, int shares, int batch,
                                                 int head, int position, int column)
{
    const float *share =
        static_cast<const float *>(from.data) + row_offset(from, batch, head * shares, position) + column;
    float2 sum = make_float2(0.0f, 0.0f);
    for (int i = 0; i < shares; i++, share += from.head) {
        const float2 x = *reinterpret_cast<const float2 *>(share);
        sum.x += x.x, sum.y += x.y;
    }
    put_pair(to, row_offset(to, batch, head, position) + column, sum.x, sum.y);
}

/* Adds the shares of dk and dv. Grid: a thread for each pair of columns of a head; kv heads; batch. */
static KERNEL(TILE_THREADS) attention_join_shares(attention_problem a)
{
    const int batch = blockIdx.z, head = blockIdx.y, pair = blockIdx.x * TILE_THREADS + threadIdx.x;
    const int position = pair / (a.d / 2), column = pair % (a.d / 2) * 2;
    if (position >= a.t) return;
    join_pair(a.dk, a.share_dk, a.shares, batch, head, position, column);
    join_pair(a.dv, a.share_dv, a.shares, batch, head, position, column);
}

/* Turns scores [query][key] into weights. lse: of the lane's two rows. */
template <int other>
static __device__ __forceinline__ void weights_of_queries(fragment<1, other> &x, const attention_problem &a,
                                                          const float *lse, int query, int key)
{
    const float factor = a.scale * LOG2_E;
    UNROLL
    for (int n = 0; n < other / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) x.at[0][n][e] = weight_of(x.at[0][n][e] * factor, lse[e / 2]);
    if (key + other <= keys_before(a, query + 1)) return;
    UNROLL
    for (int n = 0; n < other / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) {
        const int column = key + column_in(n, e);
        if (column >= a.t || column > query + row_in(0, e) + a.key_offset) x.at[0][n][e] = 0.0f;
    }
}

template <int other, int width>
static __device__ __forceinline__ void load_keys(query_memory<other, width> &to, int buffer, const attention_problem &a,
                                                 int batch, int kv_head, int first)
{
    load_tile(to.k[buffer], a.k, batch, kv_head, first);
    load_tile(to.v[buffer], a.v, batch, kv_head, first);
}

/* Adds one tile of keys to the gradients of the warp's queries. p and ds are [query][key]. */
template <int other, int width>
static __device__ __forceinline__ void add_to_queries(fragment<1, width> &dq, const query_memory<other, width> &memory,
                                                      int buffer, const attention_problem &a, const float *lse,
                                                      const float *dot, int query, int key)
{
    const int own = warp() * 16;
    fragment<1, other> p, ds;
    rows_by_rows(p, memory.q, own, memory.k[buffer]);
    weights_of_queries(p, a, lse, query, key);
    rows_by_rows(ds, memory.d_out, own, memory.v[buffer]);
    UNROLL
    for (int n = 0; n < other / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) ds.at[0][n][e] = score_gradient(p.at[0][n][e], ds.at[0][n][e], dot[e / 2]);
    add_product(dq, round_weights(ds), memory.k[buffer], 0);
}

/* Grid: tiles of queries, heads, batch. The first blocks have the late queries, which see most keys. */
template <int other, int width> KERNEL(TILE_THREADS) attention_query_gradients(attention_problem a)
{
    typedef query_memory<other, width> memory_type;
    SHARED(memory_type, memory);
    const int batch = blockIdx.z, head = blockIdx.y, kv_head = head / a.group,
              start = (gridDim.x - 1 - blockIdx.x) * OWN;
    const int first = start + warp() * 16, keys = keys_before(a, start + OWN);
    fragment<1, width> dq;
    float lse[2], dot[2];
    clear(dq);
    for (int r = 0; r < 2; r++) {
        const float *statistics = statistics_of(a, batch, head) + first + row_in(0, 2 * r);
        lse[r] = statistics[SCALED_LSE * a.padded], dot[r] = statistics[DOT * a.padded];
    }
    load_tile(memory.q, a.q, batch, head, start);
    load_tile(memory.d_out, a.d_out, batch, head, start);
    load_keys(memory, 0, a, batch, kv_head, 0);
    copy_async_commit();
    for (int buffer = 0, key = 0; key < keys; buffer = 1 - buffer, key += other) {
        copy_async_wait();
        __syncthreads();
        if (key + other < keys) load_keys(memory, 1 - buffer, a, batch, kv_head, key + other);
        copy_async_commit();
        if (first < a.s && key < keys_before(a, first + 16))
            add_to_queries(dq, memory, buffer, a, lse, dot, first, key);
    }
    const float scale[1][2] = { { a.scale, a.scale } };
    put_fragment(a.dq, batch, head, first, 0, dq, scale);
}

static size_t statistics_floats(const attention_problem &a) { return (size_t)a.b * a.heads * STATISTICS * a.padded; }

/* Returns the floats of all shares of dk; dv has as many. */
static size_t share_floats(const attention_problem &a) { return (size_t)a.b * a.kv_heads * a.shares * a.t * a.d; }

/* Returns the smallest divisor of the group that makes enough blocks, or the group. */
static int shares_of(const attention_problem &a)
{
    const int64_t blocks = (int64_t)tiles_of(a.t, OWN) * a.kv_heads * a.b;
    int shares = 1;
    while (shares < a.group && (blocks * shares < ENOUGH_BLOCKS || a.group % shares != 0)) shares++;
    return shares;
}

/* Returns a view [b, kv_heads x shares, t, d]. d is even, so pairs are aligned. */
static head_view share_view(const attention_problem &a, float *data)
{
    const int64_t head = (int64_t)a.t * a.d;
    return { data, a.d, head * a.kv_heads * a.shares, head, a.t, a.d, false, true, false };
}

static attention_problem divided_problem_of(const cuda_call *c)
{
    attention_problem a = problem_of(c);
    a.shares = shares_of(a);
    a.share_heads = a.group / a.shares;
    return a;
}

static void place_shares(attention_problem &a)
{
    float *data = a.statistics + statistics_floats(a);
    a.share_dk = a.shares > 1 ? share_view(a, data) : a.dk;
    a.share_dv = a.shares > 1 ? share_view(a, data + share_floats(a)) : a.dv;
}

template <int other, int width, int columns> static void launch_backward(const cuda_call *c)
{
    attention_problem a = divided_problem_of(c);
    place_shares(a);
    dim3 keys(tiles_of(a.t, OWN), a.kv_heads * a.shares * (width / columns), a.b),
        queries(tiles_of(a.s, OWN), a.heads, a.b);
    dim3 pairs(tiles_of(a.t * (a.d / 2), TILE_THREADS), a.kv_heads, a.b);
    LAUNCH(attention_statistics, dim3(a.padded / WARPS, a.heads, a.b), TILE_THREADS, 0, c->stream, a);
    LAUNCH((attention_key_gradients<other, width, columns>), keys, TILE_THREADS, sizeof(key_memory<other, width>),
           c->stream, a);
    if (a.shares > 1) LAUNCH(attention_join_shares, pairs, TILE_THREADS, 0, c->stream, a);
    LAUNCH((attention_query_gradients<other, width>), queries, TILE_THREADS, sizeof(query_memory<other, width>),
           c->stream, a);
}

/* Uses tiles of half the size on GPUs with 99 KiB of shared memory per block (8.6, 8.9, 12.0). */
template <int other, int width> static void launch_backward_fitting(const cuda_call *c)
{
    if (sizeof(key_memory<other, width>) <= cuda_shared_memory()) launch_backward<other, width, width>(c);
    else launch_backward<other / 2, width, width>(c);
}

XGSW_EXTERN size_t tiled_attention_backward_scratch(const cuda_call *c)
{
    const attention_problem a = divided_problem_of(c);
    return (statistics_floats(a) + (a.shares > 1 ? 2 * share_floats(a) : 0)) * sizeof(float);
}

XGSW_EXTERN void tiled_attention_backward(const cuda_call *c)
{
    int64_t d = c->x[Q].dim[3];
    if (d <= 32) launch_backward<64, 32, 32>(c);
    else if (d <= 64) launch_backward<64, 64, 64>(c);
    else if (d <= 128) launch_backward_fitting<64, 128>(c);
    else if (d <= 192) launch_backward_fitting<32, 192>(c);
    else launch_backward<32, 256, 128>(c);
}
