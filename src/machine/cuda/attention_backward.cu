/* Attention backward on tensor cores (Dao 2023, algorithm 2), without atomics: one kernel has a tile of keys and walks over the
 * queries of all heads of the group in order, for dk and dv; another has a tile of queries and walks over the keys, for dq.
 * Both compute the weights again from lse. The next tiles arrive while these are used. */
#include "machine/cuda/attention_tile.cuh"

enum { OWN = WARPS * 16 };              /* positions of a block: 16 for each warp */
enum { SCALED_LSE, DOT, STATISTICS };

static __device__ __forceinline__ float *statistics_of(const attention_problem &a, int batch, int head)
{
    return a.statistics + ((int64_t)batch * a.heads + head) * STATISTICS * a.padded;
}

/* A warp for each query: log2(e) lse, and D = rowsum(d_out * out). Beyond the last query infinity, which makes weights 0, and 0. */
static KERNEL(TILE_THREADS) attention_statistics(attention_problem a)
{
    const int batch = blockIdx.z, head = blockIdx.y, position = blockIdx.x * WARPS + warp();
    const bool held = position < a.s;
    float *statistics = statistics_of(a, batch, head), dot = 0.0f;
    const int64_t out = row_offset(a.out, batch, head, position), d_out = row_offset(a.d_out, batch, head, position);
    for (int i = lane(); held && i < a.d; i += WARP) dot = fmaf(get(a.out, out + i), get(a.d_out, d_out + i), dot);
    dot = warp_sum(dot);
    if (lane() == 0) {
        statistics[SCALED_LSE * a.padded + position] = held ? a.lse[batch * a.lse_batch + head * a.lse_head + position] * LOG2_E : INFINITY;
        statistics[DOT * a.padded + position] = dot;
    }
}

/* The block's own tiles, and two of each kind that it walks over: one in use, one arriving. */
template <int other, int width> struct key_memory {
    tile<OWN, width> k, v;
    tile<other, width> q[2], d_out[2];
    float statistics[2][STATISTICS][other];
};
template <int other, int width> struct query_memory { tile<OWN, width> q, d_out; tile<other, width> k[2], v[2]; };

template <int other, int width>
static __device__ __forceinline__ void load_queries(key_memory<other, width> &to, int at, const attention_problem &a, int batch,
                                                    int head, int first)
{
    const float *from = statistics_of(a, batch, head) + first;
    load_tile(to.q[at], a.q, batch, head, first);
    load_tile(to.d_out[at], a.d_out, batch, head, first);
    for (unsigned i = threadIdx.x; i < STATISTICS * other / 4; i += TILE_THREADS) {
        const int kind = i / (other / 4), place = i % (other / 4) * 4;
        copy_async(&to.statistics[at][kind][place], from + kind * a.padded + place, true);
    }
}

/* Scores [key][query] become weights. */
template <int other>
static __device__ __forceinline__ void weights_of_keys(fragment<1, other> &x, const attention_problem &a, const float *lse, int key,
                                                       int query)
{
    const float factor = a.scale * LOG2_E;
    UNROLL
    for (int n = 0; n < other / 8; n++)
        UNROLL
        for (int e = 0; e < 4; e++) x.at[0][n][e] = exp2_fast(x.at[0][n][e] * factor - lse[column_in(n, e)]);
    if (!a.causal || key + 15 <= query) return;
    UNROLL
    for (int n = 0; n < other / 8; n++)
        UNROLL
        for (int e = 0; e < 4; e++)
            if (key + row_in(0, e) > query + column_in(n, e)) x.at[0][n][e] = 0.0f;
}

/* What the queries of one tile give the warp's keys; p and ds are [key][query]. */
template <int other, int width, int columns>
static __device__ __forceinline__ void add_to_keys(fragment<1, columns> &dk, fragment<1, columns> &dv,
                                                   const key_memory<other, width> &memory, int at, const attention_problem &a, int key,
                                                   int query, int column)
{
    const float *lse = memory.statistics[at][SCALED_LSE], *dot = memory.statistics[at][DOT];
    const int own = warp() * 16;
    fragment<1, other> p, ds;
    rows_by_rows(p, memory.k, own, memory.q[at]);
    weights_of_keys(p, a, lse, key, query);
    add_product(dv, round_weights(p), memory.d_out[at], column);
    rows_by_rows(ds, memory.v, own, memory.d_out[at]);
    UNROLL
    for (int n = 0; n < other / 8; n++)
        UNROLL
        for (int e = 0; e < 4; e++) ds.at[0][n][e] = p.at[0][n][e] * (ds.at[0][n][e] - dot[column_in(n, e)]);
    add_product(dk, round_weights(ds), memory.q[at], column);
}

/* Where the walk over queries stands. */
struct query_place { int head, query; };

/* Grid: tiles of keys, (kv head, part of the columns of dk and dv), batch. Early keys, which most queries see, go first. */
template <int other, int width, int columns> KERNEL(TILE_THREADS) attention_key_gradients(attention_problem a)
{
    typedef key_memory<other, width> memory_type;
    SHARED(memory_type, memory);
    const int column_parts = width / columns, column = blockIdx.y % column_parts * columns;
    const int batch = blockIdx.z, kv_head = blockIdx.y / column_parts, start = blockIdx.x * OWN, first = start + warp() * 16;
    const int first_query = a.causal ? start : 0, heads = (kv_head + 1) * a.group;
    fragment<1, columns> dk, dv;
    clear(dk);
    clear(dv);
    query_place now = { kv_head * a.group, first_query }, next;
    load_tile(memory.k, a.k, batch, kv_head, start);
    load_tile(memory.v, a.v, batch, kv_head, start);
    load_queries(memory, 0, a, batch, now.head, now.query);
    copy_async_commit();
    for (int at = 0; now.head < heads; at = 1 - at, now = next) {
        next = now.query + other < a.s ? query_place{ now.head, now.query + other } : query_place{ now.head + 1, first_query };
        copy_async_wait();
        __syncthreads();
        if (next.head < heads) load_queries(memory, 1 - at, a, batch, next.head, next.query);
        copy_async_commit();
        if (first < a.t && (!a.causal || first < now.query + other)) add_to_keys(dk, dv, memory, at, a, first, now.query, column);
    }
    const float one[1][2] = { { 1.0f, 1.0f } }, scale[1][2] = { { a.scale, a.scale } };
    put_fragment(a.dv, batch, kv_head, first, column, dv, one);
    put_fragment(a.dk, batch, kv_head, first, column, dk, scale);
}

/* Scores [query][key] become weights; lse of the lane's two rows. */
template <int other>
static __device__ __forceinline__ void weights_of_queries(fragment<1, other> &x, const attention_problem &a, const float *lse,
                                                          int query, int key)
{
    const float factor = a.scale * LOG2_E;
    UNROLL
    for (int n = 0; n < other / 8; n++)
        UNROLL
        for (int e = 0; e < 4; e++) x.at[0][n][e] = exp2_fast(x.at[0][n][e] * factor - lse[e / 2]);
    if (key + other <= a.t && (!a.causal || key + other <= query + 1)) return;
    UNROLL
    for (int n = 0; n < other / 8; n++)
        UNROLL
        for (int e = 0; e < 4; e++) {
            const int column = key + column_in(n, e);
            if (column >= a.t || (a.causal && column > query + row_in(0, e))) x.at[0][n][e] = 0.0f;
        }
}

template <int other, int width>
static __device__ __forceinline__ void load_keys(query_memory<other, width> &to, int at, const attention_problem &a, int batch,
                                                 int kv_head, int first)
{
    load_tile(to.k[at], a.k, batch, kv_head, first);
    load_tile(to.v[at], a.v, batch, kv_head, first);
}

/* What the keys of one tile give the warp's queries; p and ds are [query][key]. */
template <int other, int width>
static __device__ __forceinline__ void add_to_queries(fragment<1, width> &dq, const query_memory<other, width> &memory, int at,
                                                      const attention_problem &a, const float *lse, const float *dot, int query, int key)
{
    const int own = warp() * 16;
    fragment<1, other> p, ds;
    rows_by_rows(p, memory.q, own, memory.k[at]);
    weights_of_queries(p, a, lse, query, key);
    rows_by_rows(ds, memory.d_out, own, memory.v[at]);
    UNROLL
    for (int n = 0; n < other / 8; n++)
        UNROLL
        for (int e = 0; e < 4; e++) ds.at[0][n][e] = p.at[0][n][e] * (ds.at[0][n][e] - dot[e / 2]);
    add_product(dq, round_weights(ds), memory.k[at], 0);
}

/* Grid: tiles of queries, heads, batch. Late queries, which see most keys, go first. */
template <int other, int width> KERNEL(TILE_THREADS) attention_query_gradients(attention_problem a)
{
    typedef query_memory<other, width> memory_type;
    SHARED(memory_type, memory);
    const int batch = blockIdx.z, head = blockIdx.y, kv_head = head / a.group, start = (gridDim.x - 1 - blockIdx.x) * OWN;
    const int first = start + warp() * 16, keys = a.causal && start + OWN < a.t ? start + OWN : a.t;
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
    for (int at = 0, key = 0; key < keys; at = 1 - at, key += other) {
        copy_async_wait();
        __syncthreads();
        if (key + other < keys) load_keys(memory, 1 - at, a, batch, kv_head, key + other);
        copy_async_commit();
        if (first < a.s && (!a.causal || key < first + 16)) add_to_queries(dq, memory, at, a, lse, dot, first, key);
    }
    const float scale[1][2] = { { a.scale, a.scale } };
    put_fragment(a.dq, batch, head, first, 0, dq, scale);
}

template <int other, int width, int columns> static void launch_backward(const cuda_call *c)
{
    attention_problem a = problem_of(c);
    LAUNCH(attention_statistics, dim3(a.padded / WARPS, a.heads, a.b), TILE_THREADS, 0, c->stream, a);
    LAUNCH((attention_key_gradients<other, width, columns>), dim3(tiles_of(a.t, OWN), a.kv_heads * (width / columns), a.b), TILE_THREADS,
           sizeof(key_memory<other, width>), c->stream, a);
    LAUNCH((attention_query_gradients<other, width>), dim3(tiles_of(a.s, OWN), a.heads, a.b), TILE_THREADS,
           sizeof(query_memory<other, width>), c->stream, a);
}

XGSW_EXTERN size_t tiled_attention_backward_scratch(const cuda_call *c)
{
    attention_problem a = problem_of(c);
    return (size_t)a.b * a.heads * STATISTICS * a.padded * sizeof(float);
}

XGSW_EXTERN void tiled_attention_backward(const cuda_call *c)
{
    int64_t d = c->x[Q].dim[3];
    if (d <= 32) launch_backward<64, 32, 32>(c);
    else if (d <= 64) launch_backward<64, 64, 64>(c);
    else if (d <= 128) launch_backward<64, 128, 128>(c);
    else if (d <= 192) launch_backward<32, 192, 192>(c);
    else launch_backward<32, 256, 128>(c);
}
