/* Attention forward on tensor cores (Dao 2023, algorithm 1). A thread block owns a tile of queries of one head and
 * visits the tiles of keys. Values are loaded while scores are computed, and the next keys while values are added. */
#include "machine/cuda/attention/attention_tile.cuh"

enum { KEYS = 64 };

/* Queries of a block: `parts` times 16 per warp. */
template <int parts, int width> struct forward_memory {
    tile<WARPS * 16 * parts, width> q;
    tile<KEYS, width> k, v;
};

/* For each of a lane's rows: the largest score so far (base 2), and the lane's sum of 2^(score - maximum). */
template <int parts> struct row_state {
    float maximum[parts][2], sum[parts][2];
};

/* Sets scores to -infinity where the query does not see the key. */
template <int parts>
static __device__ __forceinline__ void mask_scores(fragment<parts, KEYS> &x, const attention_problem &a, int query,
                                                   int key)
{
    UNROLL
    for (int m = 0; m < parts; m++) UNROLL
    for (int n = 0; n < KEYS / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) {
        const int column = key + column_in(n, e);
        if (column >= a.t || column > query + row_in(m, e) + a.key_offset) x.at[m][n][e] = -INFINITY;
    }
}

/* Multiplies scores by log2(e) scale, and masks them. */
template <int parts>
static __device__ __forceinline__ void scale_scores(fragment<parts, KEYS> &x, const attention_problem &a, int query,
                                                    int key)
{
    const float factor = a.scale * LOG2_E;
    UNROLL
    for (int m = 0; m < parts; m++) UNROLL
    for (int n = 0; n < KEYS / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) x.at[m][n][e] *= factor;
    if (key + KEYS > keys_before(a, query + 1)) mask_scores(x, a, query, key);
}

/* Raises the maxima to those of the new scores, and scales down earlier sums. */
template <int parts, int width>
static __device__ __forceinline__ void raise_maxima(row_state<parts> &state, fragment<parts, width> &out,
                                                    const fragment<parts, KEYS> &scores)
{
    UNROLL
    for (int m = 0; m < parts; m++) UNROLL
    for (int r = 0; r < 2; r++) {
        float largest = state.maximum[m][r];
        UNROLL
        for (int n = 0; n < KEYS / 8; n++)
            largest = fmaxf(largest, fmaxf(scores.at[m][n][2 * r], scores.at[m][n][2 * r + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
        float rescale = exp2_fast(state.maximum[m][r] - largest);
        state.maximum[m][r] = largest;
        state.sum[m][r] *= rescale;
        UNROLL
        for (int n = 0; n < width / 8; n++) out.at[m][n][2 * r] *= rescale, out.at[m][n][2 * r + 1] *= rescale;
    }
}

/* Turns scores into 2^(score - maximum), and adds them to the sums. */
template <int parts>
static __device__ __forceinline__ void exponentiate(row_state<parts> &state, fragment<parts, KEYS> &scores)
{
    UNROLL
    for (int m = 0; m < parts; m++) UNROLL
    for (int n = 0; n < KEYS / 8; n++) UNROLL
    for (int e = 0; e < 4; e++) {
        scores.at[m][n][e] = exp2_fast(scores.at[m][n][e] - state.maximum[m][e / 2]);
        state.sum[m][e / 2] += scores.at[m][n][e];
    }
}

template <int parts, int width>
static __device__ __forceinline__ void normalize_rows(const attention_problem &a, const row_state<parts> &state,
                                                      const fragment<parts, width> &out, int batch, int head, int first)
{
    float factor[parts][2];
    UNROLL
    for (int m = 0; m < parts; m++) UNROLL
    for (int r = 0; r < 2; r++) {
        int position = first + row_in(m, 2 * r);
        float sum = state.sum[m][r];
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        factor[m][r] = 1.0f / sum;
        if (position < a.s && lane() % 4 == 0)
            a.lse[batch * a.lse_batch + head * a.lse_head + position] = fmaf(state.maximum[m][r], LN_2, logf(sum));
    }
    put_fragment(a.out, batch, head, first, 0, out, factor);
}

/* Grid: tiles of queries, heads, batch. The first blocks have the late queries, which see most keys. */
template <int parts, int width> KERNEL(TILE_THREADS) attention_forward_tiles(attention_problem a)
{
    enum { QUERIES = WARPS * 16 * parts };
    typedef forward_memory<parts, width> memory_type;
    SHARED(memory_type, memory);
    const int batch = blockIdx.z, head = blockIdx.y, kv_head = head / a.group,
              start = (gridDim.x - 1 - blockIdx.x) * QUERIES;
    const int own = warp() * 16 * parts, first = start + own;
    const int keys = keys_before(a, start + QUERIES);
    fragment<parts, width> out;
    fragment<parts, KEYS> scores;
    row_state<parts> state;
    clear(out);
    for (int m = 0; m < parts; m++)
        for (int r = 0; r < 2; r++) state.maximum[m][r] = -INFINITY, state.sum[m][r] = 0.0f;
    load_tile(memory.q, a.q, batch, head, start);
    load_tile(memory.k, a.k, batch, kv_head, 0);
    copy_async_commit();
    for (int key = 0; key < keys; key += KEYS) {
        const bool seen = first < a.s && key < keys_before(a, first + 16 * parts);
        copy_async_wait();
        __syncthreads();
        load_tile(memory.v, a.v, batch, kv_head, key);
        copy_async_commit();
        if (seen) rows_by_rows(scores, memory.q, own, memory.k);
        copy_async_wait();
        __syncthreads();
        if (key + KEYS < keys) load_tile(memory.k, a.k, batch, kv_head, key + KEYS);
        copy_async_commit();
        if (seen) {
            scale_scores(scores, a, first, key);
            raise_maxima(state, out, scores);
            exponentiate(state, scores);
            add_product(out, round_weights(scores), memory.v, 0);
        }
    }
    normalize_rows(a, state, out, batch, head, first);
}

template <int parts, int width> static void launch_forward(const cuda_call *c)
{
    attention_problem a = problem_of(c);
    dim3 grid(tiles_of(a.s, WARPS * 16 * parts), a.heads, a.b);
    LAUNCH((attention_forward_tiles<parts, width>), grid, TILE_THREADS, sizeof(forward_memory<parts, width>), c->stream,
           a);
}

XGSW_EXTERN void tiled_attention_forward(const cuda_call *c)
{
    int64_t d = c->x[Q].dim[3];
    if (d <= 32) launch_forward<2, 32>(c);
    else if (d <= 64) launch_forward<2, 64>(c);
    else if (d <= 128) launch_forward<2, 128>(c);
    else if (d <= 192) launch_forward<1, 192>(c);
    else launch_forward<1, 256>(c);
}
