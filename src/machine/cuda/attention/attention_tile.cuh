/* Shared by the attention kernels: one head's rows of a view, and products of tiles on tensor cores (Dao 2023). A warp
 * has a multiple of 16 rows of a product. Elements lie in lanes as in mma.m16n8k16: in each 16 x 8 part, a lane has
 * columns 2 (lane % 4) and 2 (lane % 4) + 1 of rows lane / 4 and lane / 4 + 8. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"
#include "machine/cuda/kernels/element.cuh"
#include "machine/cuda/kernels/ptx.cuh"

enum { WARPS = 4, TILE_THREADS = WARPS * WARP, PADDING = 8, STATISTICS_TILE = 64 };
static const float LOG2_E = 1.44269504f, LN_2 = 0.693147181f;

/* A tensor [positions, b, heads, d] in BF16 or FP32. packed: rows move in packs of 16 bytes. adds: += for FP32. */
struct head_view {
    void *data;
    int64_t position, batch, head;
    int positions, d;
    bool is_bf16, packed, adds;
};

/* statistics: scratch of backward [b, heads, 2, padded s]: log2(e) lse and rowsum(d_out * out). Backward divides a
 * group's query heads into shares of share_heads each. share_dk and share_dv have one head per share; dk and dv are
 * their sums over a group. Query i sees keys 0 .. min(i + key_offset, t - 1). */
struct attention_problem {
    head_view q, k, v, out, d_out, dq, dk, dv, share_dk, share_dv;
    float *lse, *statistics;
    int64_t lse_batch, lse_head;
    int s, t, b, heads, kv_heads, group, shares, share_heads, d, padded, key_offset;
    float scale;
};

static inline int tiles_of(int positions, int tile) { return (positions + tile - 1) / tile; }

static inline head_view view_of(const cuda_call *c, int operand)
{
    const tensor &t = c->x[operand];
    const bool packed = packs(t, t.type == BF16 ? 8 : 4);
    return { t.data,        t.stride[0],    t.stride[1], t.stride[2],       (int)t.dim[0],
             (int)t.dim[3], t.type == BF16, packed,      c->update[operand] };
}

static inline attention_problem problem_of(const cuda_call *c)
{
    const tensor &q = c->x[Q], &k = c->x[K], &lse = c->x[LSE];
    attention_problem a = {};
    a.q = view_of(c, Q), a.k = view_of(c, K), a.v = view_of(c, V), a.out = view_of(c, OUT);
    a.d_out = view_of(c, D_OUT), a.dq = view_of(c, DQ), a.dk = view_of(c, DK), a.dv = view_of(c, DV);
    a.lse = static_cast<float *>(lse.data), a.lse_batch = lse.stride[0], a.lse_head = lse.stride[1];
    a.statistics = static_cast<float *>(c->scratch);
    a.s = (int)q.dim[0], a.t = (int)k.dim[0], a.b = (int)q.dim[1], a.heads = (int)q.dim[2], a.kv_heads = (int)k.dim[2],
    a.d = (int)q.dim[3];
    a.group = a.heads / a.kv_heads;
    a.padded = tiles_of(a.s, STATISTICS_TILE) * STATISTICS_TILE;
    a.key_offset = c->args.attention.causal ? a.t - a.s : a.t;
    a.scale = c->args.attention.scale;
    return a;
}

/* first_query_of: the first query that sees key `key`, rounded down to a tile. keys_before: the number of keys that
 * some query before `query` sees. */
static __device__ __forceinline__ int first_query_of(const attention_problem &a, int key, int tile)
{
    return key > a.key_offset ? (key - a.key_offset) / tile * tile : 0;
}
static __device__ __forceinline__ int keys_before(const attention_problem &a, int query)
{
    return query + a.key_offset < a.t ? query + a.key_offset : a.t;
}

/* Returns the offset of the first element of one position's row. */
static __device__ __forceinline__ int64_t row_offset(const head_view &x, int batch, int head, int position)
{
    return batch * x.batch + head * x.head + position * x.position;
}

static __device__ __forceinline__ float get(const head_view &x, int64_t at)
{
    return x.is_bf16 ? widen(static_cast<const bf16 *>(x.data)[at]) : static_cast<const float *>(x.data)[at];
}

/* Stores the value, or adds it if the tensor is FP32 and `adds` is set. */
static __device__ __forceinline__ void put(const head_view &x, int64_t at, float value)
{
    float *wide = static_cast<float *>(x.data) + at;
    if (x.is_bf16) narrow(static_cast<bf16 *>(x.data)[at], value);
    else *wide = x.adds ? *wide + value : value;
}

static __device__ __forceinline__ void put_pair(const head_view &x, int64_t at, float first, float second)
{
    float2 *wide = reinterpret_cast<float2 *>(static_cast<float *>(x.data) + at);
    if (!x.packed) {
        put(x, at, first);
        put(x, at + 1, second);
    } else if (x.is_bf16) {
        *reinterpret_cast<uint32_t *>(static_cast<bf16 *>(x.data) + at) = pack_bf16(first, second);
    } else {
        float2 old = x.adds ? *wide : make_float2(0.0f, 0.0f);
        *wide = make_float2(old.x + first, old.y + second);
    }
}

static __device__ __forceinline__ int lane(void) { return threadIdx.x % WARP; }
static __device__ __forceinline__ int warp(void) { return threadIdx.x / WARP; }

/* ---- tiles of BF16 in shared memory ---- */

/* Positions of one head. Eight unused elements per row let ldmatrix read from different banks. */
template <int rows, int width> struct tile {
    bf16 at[rows][width + PADDING];
};

/* Starts to load rows in packs of 16 bytes. Eight threads load a row, each of them every eighth pack. */
template <int rows, int width>
static __device__ __forceinline__ void load_packs(tile<rows, width> &to, const head_view &x, int64_t from, int end)
{
    const int first_row = threadIdx.x / 8, first_column = threadIdx.x % 8 * 8;
    const bf16 *source = static_cast<const bf16 *>(x.data) + from + first_row * x.position + first_column;
    NO_UNROLL
    for (int row = 0; row < rows; row += TILE_THREADS / 8, source += TILE_THREADS / 8 * x.position) UNROLL
    for (int column = 0; column < width; column += 64) {
        const bool exists = first_row + row < end && first_column + column < x.d;
        if (width % 64 == 0 || first_column < width)
            copy_async(&to.at[first_row + row][first_column + column], exists ? source + column : x.data, exists);
    }
}

template <int rows, int width>
static __device__ __forceinline__ void load_elements(tile<rows, width> &to, const head_view &x, int64_t from, int end)
{
    const bf16 *source = static_cast<const bf16 *>(x.data) + from;
    for (int i = threadIdx.x; i < rows * width; i += TILE_THREADS) {
        const int row = i / width, column = i % width;
        to.at[row][column] = row < end && column < x.d ? source[row * x.position + column] : bf16{};
    }
}

/* Starts to load positions from `first` on. Missing positions and columns beyond the head dim become 0. */
template <int rows, int width>
static __device__ __forceinline__ void load_tile(tile<rows, width> &to, const head_view &x, int batch, int head,
                                                 int first)
{
    const int64_t from = row_offset(x, batch, head, first);
    if (x.packed) load_packs(to, x, from, x.positions - first);
    else load_elements(to, x, from, x.positions - first);
}

/* ---- products: what a warp computes ---- */

template <int parts, int columns> struct fragment {
    float at[parts][columns / 8][4];
}; /* an FP32 result */
template <int parts, int depth> struct weights {
    uint32_t at[parts][depth / 16][4];
}; /* a BF16 left operand */

template <int parts, int columns> static __device__ __forceinline__ void clear(fragment<parts, columns> &x)
{
    UNROLL
    for (int m = 0; m < parts; m++) UNROLL
    for (int n = 0; n < columns / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) x.at[m][n][e] = 0.0f;
}

/* Return an element's row within the warp, and its column. */
static __device__ __forceinline__ int row_in(int m, int e) { return m * 16 + lane() / 4 + e / 2 * 8; }
static __device__ __forceinline__ int column_in(int n, int e) { return n * 8 + lane() % 4 * 2 + e % 2; }

/* result [rows, columns] = own [rows, width] other' [columns, width]. The warp's rows begin at row `first` of own. */
template <int parts, int columns, int owned, int width>
static __device__ __forceinline__ void rows_by_rows(fragment<parts, columns> &result, const tile<owned, width> &own,
                                                    int first, const tile<columns, width> &other)
{
    clear(result);
    UNROLL_TWICE
    for (int k = 0; k < width; k += 16) {
        uint32_t a[parts][4], b[4];
        UNROLL
        for (int m = 0; m < parts; m++) load_matrices(a[m], &own.at[first + m * 16 + lane() % 16][k + lane() / 16 * 8]);
        UNROLL
        for (int n = 0; n < columns; n += 16) {
            load_matrices(b, &other.at[n + lane() % 8 + lane() / 16 * 8][k + lane() / 8 % 2 * 8]);
            UNROLL
            for (int m = 0; m < parts; m++) {
                mma_bf16(result.at[m][n / 8], a[m], b);
                mma_bf16(result.at[m][n / 8 + 1], a[m], b + 2);
            }
        }
    }
}

/* sum [rows, columns] += left [rows, depth] other [depth, columns]. Uses the columns of other from `first` on. */
template <int parts, int columns, int depth, int width>
static __device__ __forceinline__ void add_product(fragment<parts, columns> &sum, const weights<parts, depth> &left,
                                                   const tile<depth, width> &other, int first)
{
    UNROLL
    for (int k = 0; k < depth; k += 16) UNROLL
    for (int n = 0; n < columns; n += 16) {
        uint32_t b[4];
        load_matrices_transposed(b, &other.at[k + lane() % 16][first + n + lane() / 16 * 8]);
        UNROLL
        for (int m = 0; m < parts; m++) {
            mma_bf16(sum.at[m][n / 8], left.at[m][k / 16], b);
            mma_bf16(sum.at[m][n / 8 + 1], left.at[m][k / 16], b + 2);
        }
    }
}

/* Rounds a result to BF16 as a left operand. Two parts of 16 x 8 become one of 16 x 16. */
template <int parts, int columns>
static __device__ __forceinline__ weights<parts, columns> round_weights(const fragment<parts, columns> &x)
{
    weights<parts, columns> to;
    UNROLL
    for (int m = 0; m < parts; m++) UNROLL
    for (int n = 0; n < columns / 8; n++) UNROLL
    for (int e = 0; e < 4; e += 2) to.at[m][n / 2][n % 2 * 2 + e / 2] = pack_bf16(x.at[m][n][e], x.at[m][n][e + 1]);
    return to;
}

/* Stores a fragment as rows of one head, from `first` and `column` on. Each row is multiplied by its factor. */
template <int parts, int columns>
static __device__ __forceinline__ void put_fragment(const head_view &to, int batch, int head, int first, int column,
                                                    const fragment<parts, columns> &x, const float (&factor)[parts][2])
{
    UNROLL
    for (int m = 0; m < parts; m++) UNROLL
    for (int e = 0; e < 4; e += 2) {
        int position = first + row_in(m, e);
        int64_t row = row_offset(to, batch, head, position);
        UNROLL
        for (int n = 0; n < columns / 8; n++)
            if (position < to.positions && column + column_in(n, 0) < to.d)
                put_pair(to, row + column + column_in(n, 0), x.at[m][n][e] * factor[m][e / 2],
                         x.at[m][n][e + 1] * factor[m][e / 2]);
    }
}
