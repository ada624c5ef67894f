/* Codes of FP8: made of values, transposed, and the scales of the next step. A block takes a tile of 128 rows and 128
 * columns, a thread eight columns of four rows at a time, whose loads are all in flight. Codes are transposed four by
 * four in registers and, in words of four rows, through shared memory, so that 128 bytes of a row and of a column of
 * the copy are written together: [8192, 4096] BF16 becomes codes and their copy, 134 MB, in 2048 blocks of 256. */
#include "base/fp8.h"
#include "machine/cuda/kernels/codes.cuh"
#include "machine/cuda/kernels/kernels.h"

enum { THREADS = 256, WARPS = THREADS / WARP, TILE = 128, STRIP = 8, QUAD = 4, PACK = 16 };
enum { ACROSS = TILE / STRIP, DOWN = THREADS / ACROSS * QUAD, ROUNDS = TILE / DOWN };

/* Words of a column lie one number apart from a power of two: threads that write or read together meet in few banks. */
struct code_tile {
    uint32_t word[TILE][TILE / QUAD + 1]; /* of a column, four rows */
    int32_t amax[WARPS];
    uint32_t counts[WARPS];
};

/* Tiles of groups of rows: row r of group g is row g * apart + r * step of the whole. padded: rows of the transposed
 * copy. */
struct tiling {
    int64_t groups, rows, columns, padded, apart, step;
    unsigned across, down;
};
/* A block's tile; rows, columns, padded: how much of it there is. */
struct tile_place {
    int64_t group, row, column;
    int rows, columns, padded;
};

static tiling tiling_of(int64_t groups, int64_t rows, int64_t columns, int64_t padded, bool interleaved)
{
    return { groups,
             rows,
             columns,
             padded,
             interleaved ? 1 : rows,
             interleaved ? groups : 1,
             (unsigned)parts_of(columns, TILE),
             (unsigned)parts_of(padded > rows ? padded : rows, TILE) };
}
static unsigned blocks_of(const tiling &t) { return t.across * t.down * (unsigned)t.groups; }

static __device__ __forceinline__ int within_tile(int64_t n) { return n < TILE ? (int)n : (int)TILE; }
static __device__ __forceinline__ tile_place place_of(const tiling &t)
{
    unsigned down = blockIdx.x / t.across;
    int64_t row = (int64_t)(down % t.down) * TILE, column = (int64_t)(blockIdx.x % t.across) * TILE;
    return { down / t.down,
             row,
             column,
             within_tile(t.rows - row),
             within_tile(t.columns - column),
             within_tile(t.padded - row) };
}

/* `row` + k * step of a view; one that is packed is a matrix. */
template <bool packed, typename type>
static __device__ __forceinline__ type *row_at(const tensor &t, int64_t row, int k, int64_t step)
{
    return packed ? static_cast<type *>(t.data) + row * t.stride[0] + k * (step * t.stride[0])
                  : row_of<type>(t, row + k * step);
}

/* ---- strips: eight neighbours of a row, of which there are `columns`; the rest are zero ---- */

static __device__ __forceinline__ void put(pack<float, STRIP> &x, int i, float from) { x.of[i] = from; }
static __device__ __forceinline__ void put(pack<bf16, STRIP> &x, int i, bf16 from)
{
    x.pair[i / 2] |= (uint32_t)from.bits << i % 2 * 16;
}

template <bool packed, typename type>
static __device__ __forceinline__ pack<type, STRIP> strip_of(const type *row, int columns)
{
    pack<type, STRIP> x = {};
    if (packed && columns > 0) x = *reinterpret_cast<const pack<type, STRIP> *>(row);
    for (int i = 0; !packed && i < STRIP; i++)
        if (i < columns) put(x, i, row[i]);
    return x;
}

template <bool packed> static __device__ __forceinline__ code_words codes_of(const uint8_t *row, int columns)
{
    code_words x = {};
    if (packed && columns > 0) x = *reinterpret_cast<const code_words *>(row);
    for (int i = 0; !packed && i < STRIP; i++)
        if (i < columns) x.of[i / 4] |= (uint32_t)row[i] << i % 4 * 8;
    return x;
}

template <bool packed>
static __device__ __forceinline__ void codes_store(uint8_t *row, int columns, const code_words &x)
{
    if (packed && columns > 0) *reinterpret_cast<code_words *>(row) = x;
    for (int i = 0; !packed && i < STRIP; i++)
        if (i < columns) row[i] = (uint8_t)(x.of[i / 4] >> i % 4 * 8);
}

/* ---- transposing ---- */

/* Four rows of eight codes, at that row and column of the tile. */
static __device__ __forceinline__ void tile_put(code_tile &t, int row, int column, const code_words (&x)[QUAD])
{
    for (int half = 0; half < 2; half++) {
        uint32_t a = permute_bytes(x[0].of[half], x[1].of[half], 0x5140), /* columns 0 and 1 of rows 0 and 1 */
            b = permute_bytes(x[2].of[half], x[3].of[half], 0x5140),
                 c = permute_bytes(x[0].of[half], x[1].of[half], 0x7362),
                 d = permute_bytes(x[2].of[half], x[3].of[half], 0x7362);
        t.word[column + half * 4][row / QUAD] = permute_bytes(a, b, 0x5410);
        t.word[column + half * 4 + 1][row / QUAD] = permute_bytes(a, b, 0x7632);
        t.word[column + half * 4 + 2][row / QUAD] = permute_bytes(c, d, 0x5410);
        t.word[column + half * 4 + 3][row / QUAD] = permute_bytes(c, d, 0x7632);
    }
}

struct __attribute__((may_alias, aligned(16))) code_pack {
    uint32_t of[4];
};

template <bool packed> static __device__ __forceinline__ void pack_store(uint8_t *to, const code_pack &x)
{
    if (packed) *reinterpret_cast<code_pack *>(to) = x;
    for (int i = 0; !packed && i < PACK; i++) to[i] = (uint8_t)(x.of[i / 4] >> i % 4 * 8);
}

/* The tile's columns become rows of the copy, which is padded to whole packs. */
template <bool packed>
static __device__ __forceinline__ void tile_write(const tensor &out, const code_tile &t, const tiling &cut,
                                                  const tile_place &p)
{
    enum { PACKS = TILE / PACK };
    const int64_t first = p.group * cut.columns + p.column + threadIdx.x / PACKS;
    UNROLL
    for (int k = 0; k < TILE * PACKS / THREADS; k++) {
        int at = k * THREADS + threadIdx.x, column = at / PACKS, row = at % PACKS * PACK;
        code_pack x;
        if (column >= p.columns || row >= p.padded) continue;
        for (int i = 0; i < 4; i++) x.of[i] = t.word[column][row / QUAD + i];
        uint8_t *to = row_at<packed, uint8_t>(out, first, k, THREADS / PACKS) + p.row + row;
        pack_store<packed>(to, x);
    }
}

/* ---- quantize ---- */

struct quantizing {
    tensor x, codes, transposed; /* the last two may be absent */
    tiling cut;
    const float *scale;
    int32_t *amax;
    unsigned long long *counts;
};

/* Of what a thread has seen: the largest, and in the halves of a word what was lost and what was cut, of at most 16384
 * values in a block. */
struct found {
    int32_t amax;
    uint32_t counts;
};

/* Of a strip; half of the smallest code becomes zero. That one is cut is seen by the largest, and rare. */
template <int format>
static __device__ __forceinline__ void see(found &f, const float (&x)[STRIP], const float (&scaled)[STRIP], float scale)
{
    const float lost = format == E4M3 ? 0x1p-10f : 0x1p-17f, largest = fp8_largest((dtype)format);
    int32_t most = 0;
    for (int i = 0; i < STRIP; i++) most = max(most, amax_bits(x[i]));
    for (int i = 0; i < STRIP; i++) f.counts += x[i] != 0.0f && fabsf(scaled[i]) <= lost ? 1u : 0u;
    f.amax = max(f.amax, most);
    if (float_from_bits((uint32_t)most) * scale <= largest) return;
    for (int i = 0; i < STRIP; i++) f.counts += fabsf(scaled[i]) > largest ? 1u << 16 : 0u;
}

template <int format, typename type>
static __device__ __forceinline__ code_words encode(const pack<type, STRIP> &given, float scale, found &f)
{
    float x[STRIP], scaled[STRIP];
    for (int i = 0; i < STRIP; i++) x[i] = get(given, i), scaled[i] = x[i] * scale;
    see<format>(f, x, scaled, scale);
    return pack_codes((dtype)format, scaled);
}

static __device__ __forceinline__ void join_counts(const quantizing &q, uint32_t own, uint32_t *partial)
{
    uint32_t sum = __reduce_add_sync(0xFFFFFFFFu, own);
    if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < WARPS; i++) sum += partial[i];
    atomicAdd(q.counts + FP8_UNDERFLOWS, (unsigned long long)(sum & 0xFFFFu));
    atomicAdd(q.counts + FP8_SATURATIONS, (unsigned long long)(sum >> 16));
    if (blockIdx.x == 0)
        atomicAdd(q.counts + FP8_VALUES, (unsigned long long)(q.cut.groups * q.cut.rows * q.cut.columns));
}

template <typename type, int format, bool packed> static KERNEL(THREADS) quantize_tiles(quantizing q)
{
    SHARED(code_tile, tile);
    const tile_place p = place_of(q.cut);
    const int column = threadIdx.x % ACROSS * STRIP, down = threadIdx.x / ACROSS * QUAD, columns = p.columns - column;
    const int64_t first = p.group * q.cut.apart + (p.row + down) * q.cut.step, step = q.cut.step;
    const float scale = q.scale ? *q.scale : 1.0f;
    pack<type, STRIP> given[ROUNDS][QUAD] = {};
    found f = {};
    UNROLL
    for (int k = 0; k < ROUNDS * QUAD; k++) {
        int row = k / QUAD * DOWN + k % QUAD;
        if (down + row < p.rows)
            given[k / QUAD][k % QUAD] =
                strip_of<packed>(row_at<packed, type>(q.x, first, row, step) + p.column + column, columns);
    }
    UNROLL
    for (int round = 0; round < ROUNDS; round++) {
        code_words codes[QUAD] = {};
        UNROLL
        for (int i = 0; i < QUAD; i++) {
            int row = round * DOWN + i;
            code_words made = encode<format>(given[round][i], scale, f);
            if (down + row >= p.rows) continue; /* padding is zero under every scale */
            codes[i] = made;
            if (q.codes.data)
                codes_store<packed>(row_at<packed, uint8_t>(q.codes, first, row, step) + p.column + column, columns,
                                    made);
        }
        if (q.transposed.data) tile_put(tile, round * DOWN + down, column, codes);
    }
    __syncthreads();
    if (q.transposed.data) tile_write<packed>(q.transposed, tile, q.cut, p);
    if (q.amax) join_amax(q.amax, f.amax, tile.amax);
    if (q.counts) join_counts(q, f.counts, tile.counts);
}

/* Is it a matrix whose rows begin at multiples of so many bytes, or absent? */
static bool aligned(const tensor &t, int64_t bytes, int64_t element)
{
    bool all = t.dims <= 2 && reinterpret_cast<uintptr_t>(t.data) % (uintptr_t)bytes == 0;
    for (int i = 0; i < t.dims - 1; i++) all = all && (t.dim[i] == 1 || t.stride[i] * element % bytes == 0);
    return all;
}

template <int format> static void quantize_of(const quantizing &q, cudaStream_t stream)
{
    int64_t element = q.x.type == BF16 ? sizeof(bf16) : sizeof(float);
    bool packed = q.cut.columns % STRIP == 0 && aligned(q.x, 16, element) && aligned(q.codes, STRIP, 1) &&
                  aligned(q.transposed, PACK, 1);
    with_type(q.x.type, [&](auto zero) {
        using type = decltype(zero);
        auto kernel = packed ? quantize_tiles<type, format, true> : quantize_tiles<type, format, false>;
        LAUNCH(kernel, blocks_of(q.cut), THREADS, sizeof(code_tile), stream, q);
    });
}

XGSW_EXTERN void cuda_quantize(const cuda_call *c)
{
    enum { X, CODES, TRANSPOSED, SCALE, AMAX, COUNTS };
    const tensor &x = c->x[X], &codes = c->x[CODES], &t = c->x[TRANSPOSED];
    int64_t groups = t.dims == 3 ? t.dim[0] : 1, rows = rows_of(x) / groups;
    quantizing q = { merged(x),
                     merged(codes),
                     merged(t),
                     tiling_of(groups, rows, columns_of(x), t.dims ? columns_of(t) : rows, true),
                     static_cast<const float *>(c->x[SCALE].data),
                     static_cast<int32_t *>(c->x[AMAX].data),
                     static_cast<unsigned long long *>(c->x[COUNTS].data) };
    if (elements_of(x) == 0) return;
    if ((codes.dims ? codes.type : t.type) == E5M2) quantize_of<E5M2>(q, c->stream);
    else quantize_of<E4M3>(q, c->stream);
}

/* ---- transpose ---- */

template <bool packed> static KERNEL(THREADS) transpose_tiles(tensor out, tensor x, tiling cut)
{
    SHARED(code_tile, tile);
    const tile_place p = place_of(cut);
    const int column = threadIdx.x % ACROSS * STRIP, down = threadIdx.x / ACROSS * QUAD, columns = p.columns - column;
    const int64_t first = p.group * cut.apart + (p.row + down) * cut.step;
    code_words given[ROUNDS][QUAD] = {};
    UNROLL
    for (int k = 0; k < ROUNDS * QUAD; k++) {
        int row = k / QUAD * DOWN + k % QUAD;
        if (down + row < p.rows)
            given[k / QUAD][k % QUAD] =
                codes_of<packed>(row_at<packed, uint8_t>(x, first, row, cut.step) + p.column + column, columns);
    }
    UNROLL
    for (int round = 0; round < ROUNDS; round++) tile_put(tile, round * DOWN + down, column, given[round]);
    __syncthreads();
    tile_write<packed>(out, tile, cut, p);
}

XGSW_EXTERN void cuda_transpose(const cuda_call *c)
{
    const tensor out = merged(c->x[0]), x = merged(c->x[1]);
    int64_t groups = c->x[1].dims == 3 ? c->x[1].dim[0] : 1;
    tiling cut = tiling_of(groups, rows_of(x) / groups, columns_of(x), columns_of(out), false);
    bool packed = cut.columns % STRIP == 0 && aligned(x, STRIP, 1) && aligned(out, PACK, 1);
    if (elements_of(x) == 0) return;
    LAUNCH(packed ? transpose_tiles<true> : transpose_tiles<false>, blocks_of(cut), THREADS, sizeof(code_tile),
           c->stream, out, x, cut);
}

/* ---- scales ---- */

struct amax_history {
    const double *scalars;
    int32_t *amax, *past;
    float *scales;
    int64_t tensors;
    bool exact;
};
struct largest_parts {
    int32_t most[WARPS][WARP];
};

/* A warp reads every eighth step of 32 tensors. */
static KERNEL(THREADS) scale_tensors(amax_history h)
{
    SHARED(largest_parts, parts);
    int lane = threadIdx.x % WARP, part = threadIdx.x / WARP;
    int64_t i = (int64_t)blockIdx.x * WARP + lane, n = h.tensors,
            at = ((int64_t)h.scalars[SCALAR_STEP] + 1) % FP8_HISTORY;
    int32_t most = 0;
#pragma unroll 8
    for (int64_t step = part; step < FP8_HISTORY; step += WARPS)
        if (i < n && step != at) most = max(most, h.past[step * n + i]);
    parts.most[part][lane] = most;
    __syncthreads();
    if (part > 0 || i >= n) return;
    int32_t now = h.past[at * n + i] = h.amax[i];
    for (int k = 0; k < WARPS; k++) now = max(now, parts.most[k][lane]);
    float scale = fp8_scale_of(i % FP8_KINDS == FP8_GRADIENT ? E5M2 : E4M3, now, h.exact);
    h.scales[i * FP8_FACTORS + FP8_SCALE] = scale;
    h.scales[i * FP8_FACTORS + FP8_INVERSE] = 1.0f / scale;
    h.amax[i] = 0;
}

XGSW_EXTERN void cuda_fp8_scales(const cuda_call *c)
{
    amax_history h = { static_cast<const double *>(c->x[0].data),
                       static_cast<int32_t *>(c->x[1].data),
                       static_cast<int32_t *>(c->x[2].data),
                       static_cast<float *>(c->x[3].data),
                       elements_of(c->x[1]),
                       c->args.fp8_scales.exact };
    LAUNCH(scale_tensors, (unsigned)parts_of(h.tensors, WARP), THREADS, sizeof(largest_parts), c->stream, h);
}
