/* FP8 values: quantization, transposition, and the scales of the next step. */
#include "machine/cuda/kernels/fp8_tiles.cuh"

/* ---- quantize ---- */

template <typename type, int format> struct given_values {
    enum { PARTS = 1, PREFETCH = 4 / sizeof(type), FORMAT = format };
    using value = type;
    tensor x;
    struct given {
        pack<type, STRIP> x;
    };

    template <bool packed> __device__ __forceinline__ given load(const strip_place &at, int k) const
    {
        return { strip_of<packed>(at.of<packed, const type>(x, k), at.columns) };
    }
    static __device__ __forceinline__ void values(const given &g, float (&y)[PARTS][STRIP])
    {
        for (int i = 0; i < STRIP; i++) y[0][i] = get(g.x, i);
    }
};

template <int format> static void quantize_of(const encoding_call &e, const tensor &x, cudaStream_t stream)
{
    with_type(x.type, [&](auto zero) {
        given_values<decltype(zero), format> from = { x };
        encode_values(e, from, aligned(x, 16, sizeof zero), stream);
    });
}

XGSW_EXTERN void cuda_quantize(const cuda_call *c)
{
    const tensor x = merged(c->x[0]);
    encoding_call e = encoding_of(c, 1, rows_of(x), columns_of(x));
    if (elements_of(x) == 0) return;
    if (e.format == E5M2) quantize_of<E5M2>(e, x, c->stream);
    else quantize_of<E4M3>(e, x, c->stream);
}

/* ---- transpose ---- */

template <bool packed> static KERNEL(TILE_THREADS) transpose_tiles(tensor out, tensor x, tiling cut)
{
    SHARED(fp8_tile, tile);
    const tile_place p = place_of<1>(cut);
    enum { DOWN = shape<1>::DOWN, ROUNDS = shape<1>::ROUNDS, ACROSS = shape<1>::ACROSS };
    const int column = threadIdx.x % ACROSS * STRIP, down = threadIdx.x / ACROSS * QUAD, columns = p.columns - column;
    const int64_t first = p.group * cut.group_step + (p.row + down) * cut.row_step;
    fp8_words given[ROUNDS][QUAD] = {};
    UNROLL
    for (int k = 0; k < ROUNDS * QUAD; k++) {
        int row = k / QUAD * DOWN + k % QUAD;
        if (down + row < p.rows)
            given[k / QUAD][k % QUAD] =
                fp8_of<packed>(row_at<packed, uint8_t>(x, first, row, cut.row_step) + p.column + column, columns);
    }
    UNROLL
    for (int round = 0; round < ROUNDS; round++) tile_put(tile, round * DOWN + down, column, given[round]);
    __syncthreads();
    tile_write<1, packed>(out, tile, cut, p);
}

XGSW_EXTERN void cuda_transpose(const cuda_call *c)
{
    const tensor out = merged(c->x[0]), x = merged(c->x[1]);
    int64_t groups = c->x[1].dims == 3 ? c->x[1].dim[0] : 1;
    tiling cut = tiling_of(groups, rows_of(x) / groups, columns_of(x), columns_of(out), false);
    bool packed = cut.columns % STRIP == 0 && aligned(x, STRIP, 1) && aligned(out, PACK, 1);
    if (elements_of(x) == 0) return;
    LAUNCH(packed ? transpose_tiles<true> : transpose_tiles<false>, blocks_of(cut), TILE_THREADS, sizeof(fp8_tile),
           c->stream, out, x, cut);
}

/* ---- scales ---- */

struct amax_history {
    const double *scalars;
    int32_t *amax, *past;
    float *scales;
    int64_t tensors;
    fp8_scales_args args;
};
struct largest_parts {
    int32_t most[TILE_WARPS][WARP];
};

/* Each warp reads every eighth step of the history of 32 tensors, if there is a history. */
static KERNEL(TILE_THREADS) scale_tensors(amax_history h)
{
    SHARED(largest_parts, parts);
    int lane = threadIdx.x % WARP, part = threadIdx.x / WARP;
    int64_t i = (int64_t)blockIdx.x * WARP + lane, n = h.tensors, steps = h.past ? FP8_HISTORY : 0,
            at = h.past ? ((int64_t)h.scalars[SCALAR_STEP] + 1) % FP8_HISTORY : 0;
    int32_t most = 0;
#pragma unroll 8
    for (int64_t step = part; step < steps; step += TILE_WARPS)
        if (i < n && step != at) most = max(most, h.past[step * n + i]);
    parts.most[part][lane] = most;
    __syncthreads();
    if (part > 0 || i >= n) return;
    int32_t now = h.amax[i];
    if (h.past) h.past[at * n + i] = now;
    for (int k = 0; k < TILE_WARPS; k++) now = max(now, parts.most[k][lane]);
    fp8_set_factors(h.scales + i * FP8_FACTORS, fp8_scale_of(fp8_format(h.args.first + i), now, h.args.exact));
    h.amax[i] = 0;
}

XGSW_EXTERN void cuda_fp8_scales(const cuda_call *c)
{
    amax_history h = { static_cast<const double *>(c->x[0].data),
                       static_cast<int32_t *>(c->x[1].data),
                       static_cast<int32_t *>(c->x[2].data),
                       static_cast<float *>(c->x[3].data),
                       elements_of(c->x[1]),
                       c->args.fp8_scales };
    LAUNCH(scale_tensors, (unsigned)parts_of(h.tensors, WARP), TILE_THREADS, sizeof(largest_parts), c->stream, h);
}
