/* Converts values [m, n] to FP8. A source reads or computes each value once. A block has a tile of 128 x 128, a thread
 * eight columns of four rows at a time. FP8 values are transposed four by four in registers, then as words of four rows
 * through shared memory, so that 128 bytes of a column are written together. [8192, 4096] BF16 becomes FP8 and its
 * transposed copy, 134 MB in total, in 2048 blocks of 256 threads.
 *
 * A source has: value, the format to which values are rounded first; FORMAT, the FP8 format; load, which reads the data
 * of a strip; values, which computes PARTS strips from these data, one for each part of the tile; PREFETCH, the number
 * of groups of four rows that are loaded before the first is used. */
#pragma once
#include "base/fp8.h"
#include "machine/cuda/kernels/fp8_values.cuh"
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { TILE_THREADS = 256, TILE_WARPS = TILE_THREADS / WARP, TILE = 128, QUAD = 4, PACK = 16 };

/* WIDTH: columns of one part of a tile; ACROSS: threads across them; DOWN: rows that all threads cover at once. */
template <int PARTS> struct shape {
    enum { WIDTH = TILE / PARTS, ACROSS = WIDTH / STRIP, DOWN = TILE_THREADS / ACROSS * QUAD, ROUNDS = TILE / DOWN };
};

/* A column has 33 words, not 32, to avoid bank conflicts. */
struct fp8_tile {
    uint32_t word[TILE][TILE / QUAD + 1]; /* four rows of a column */
    int32_t amax[TILE_WARPS];
    uint32_t counts[TILE_WARPS];
};

/* Tiles of groups of rows. Row r of group g is row g * group_step + r * row_step of the matrix. padded: row length of
 * the transposed copy. run: if PARTS is 2, `run` columns of part 0 and `run` columns of part 1 alternate. */
struct tiling {
    int64_t groups, rows, columns, padded, group_step, row_step;
    unsigned across, down, run;
};
/* A block's tile. rows, columns (of each part), padded: those that exist. */
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
             (unsigned)parts_of(padded > rows ? padded : rows, TILE),
             (unsigned)columns };
}
static unsigned blocks_of(const tiling &t) { return t.across * t.down * (unsigned)t.groups; }

static __device__ __forceinline__ int within(int64_t n, int most) { return n < most ? (int)n : most; }
template <int PARTS> static __device__ __forceinline__ tile_place place_of(const tiling &t)
{
    unsigned down = blockIdx.x / t.across;
    int64_t row = (int64_t)(down % t.down) * TILE, column = (int64_t)(blockIdx.x % t.across) * shape<PARTS>::WIDTH;
    return { down / t.down,
             row,
             column,
             within(t.rows - row, TILE),
             within(t.columns / PARTS - column, shape<PARTS>::WIDTH),
             within(t.padded - row, TILE) };
}

/* Returns the matrix column of a tile column. */
template <int PARTS>
static __device__ __forceinline__ int64_t column_of(const tiling &t, const tile_place &p, int column)
{
    enum { WIDTH = shape<PARTS>::WIDTH };
    if (PARTS == 1) return p.column + column;
    unsigned in_part = (unsigned)p.column + column % WIDTH, part = column / WIDTH;
    return in_part / t.run * PARTS * (int64_t)t.run + in_part % t.run + part * (int64_t)t.run;
}

/* Returns row `row` + k * row_step of a view. If packed, the view is a matrix. */
template <bool packed, typename type>
static __device__ __forceinline__ type *row_at(const tensor &t, int64_t row, int k, int64_t row_step)
{
    return packed ? static_cast<type *>(t.data) + row * t.stride[0] + k * (row_step * t.stride[0])
                  : row_of<type>(t, row + k * row_step);
}

/* A thread's strips: in rows first + k * row_step, from `column` on. columns: those left in the row. */
struct strip_place {
    int64_t first, row_step, column;
    int columns;

    __device__ __forceinline__ int64_t row(int k) const { return first + k * row_step; }
    template <bool packed, typename type> __device__ __forceinline__ type *of(const tensor &t, int k) const
    {
        return row_at<packed, type>(t, first, k, row_step) + column;
    }
};

/* ---- strips: eight columns of a row; `columns` of them exist, the rest are zero ---- */

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

template <bool packed> static __device__ __forceinline__ fp8_words fp8_of(const uint8_t *row, int columns)
{
    fp8_words x = {};
    if (packed && columns > 0) x = *reinterpret_cast<const fp8_words *>(row);
    for (int i = 0; !packed && i < STRIP; i++)
        if (i < columns) x.of[i / 4] |= (uint32_t)row[i] << i % 4 * 8;
    return x;
}

template <bool packed> static __device__ __forceinline__ void fp8_store(uint8_t *row, int columns, const fp8_words &x)
{
    if (packed && columns > 0) *reinterpret_cast<fp8_words *>(row) = x;
    for (int i = 0; !packed && i < STRIP; i++)
        if (i < columns) row[i] = (uint8_t)(x.of[i / 4] >> i % 4 * 8);
}

/* ---- transposing ---- */

/* Stores four rows of eight FP8 values, transposed, at that row and column of the tile. */
static __device__ __forceinline__ void tile_put(fp8_tile &t, int row, int column, const fp8_words (&x)[QUAD])
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

struct __attribute__((may_alias, aligned(16))) fp8_pack {
    uint32_t of[4];
};

template <bool packed> static __device__ __forceinline__ void pack_store(uint8_t *to, const fp8_pack &x)
{
    if (packed) *reinterpret_cast<fp8_pack *>(to) = x;
    for (int i = 0; !packed && i < PACK; i++) to[i] = (uint8_t)(x.of[i / 4] >> i % 4 * 8);
}

/* Writes the tile's columns as rows of the transposed copy, padded to whole packs. */
template <int PARTS, bool packed>
static __device__ __forceinline__ void tile_write(const tensor &out, const fp8_tile &t, const tiling &cut,
                                                  const tile_place &p)
{
    enum { PACKS = TILE / PACK };
    UNROLL
    for (int k = 0; k < TILE * PACKS / TILE_THREADS; k++) {
        int at = k * TILE_THREADS + threadIdx.x, column = at / PACKS, row = at % PACKS * PACK;
        fp8_pack x;
        if (column % shape<PARTS>::WIDTH >= p.columns || row >= p.padded) continue;
        for (int i = 0; i < 4; i++) x.of[i] = t.word[column][row / QUAD + i];
        int64_t line = p.group * cut.columns + column_of<PARTS>(cut, p, column);
        pack_store<packed>(row_at<packed, uint8_t>(out, line, 0, 0) + p.row + row, x);
    }
}

/* ---- FP8 values of a source ---- */

struct encoding_call {
    tensor fp8, transposed; /* one of them may be absent */
    tiling cut;
    const float *scale;
    int32_t *amax;
    unsigned long long *counts;
    dtype format;
};

/* Converts a strip, of which `columns` exist, to FP8. Rounds to the source's format first. */
template <typename source, bool packed>
static __device__ __forceinline__ fp8_words encode(const float (&given)[STRIP], int columns, float scale,
                                                   fp8_statistics &f)
{
    pack<typename source::value, STRIP> rounded;
    float x[STRIP], scaled[STRIP];
    narrow(rounded, given);
    for (int i = 0; i < STRIP; i++) x[i] = packed || i < columns ? get(rounded, i) : 0.0f, scaled[i] = x[i] * scale;
    add_statistics((dtype)source::FORMAT, f, x, scaled, scale);
    return pack_fp8((dtype)source::FORMAT, scaled);
}

/* A thread's part of the tile. */
struct tile_share {
    tile_place p;
    strip_place at;
    int column, down; /* in the tile */
    float scale;
    fp8_statistics statistics;
};
template <int PARTS> static __device__ __forceinline__ tile_share share_of_tile(const encoding_call &q)
{
    enum { ACROSS = shape<PARTS>::ACROSS };
    const tile_place p = place_of<PARTS>(q.cut);
    int column = threadIdx.x % ACROSS * STRIP, down = threadIdx.x / ACROSS * QUAD;
    int64_t first = p.group * q.cut.group_step + (p.row + down) * q.cut.row_step;
    strip_place at = { first, q.cut.row_step, column_of<PARTS>(q.cut, p, column), p.columns - column };
    return { p, at, column, down, q.scale ? *q.scale : 1.0f, {} };
}

/* Converts four rows from row `row` of the share on. Padding is zero. */
template <typename source, bool packed>
static __device__ __forceinline__ void encode_rows(const encoding_call &q, tile_share &s, int row,
                                                   const typename source::given *given, fp8_tile &tile)
{
    enum { PARTS = source::PARTS };
    fp8_words fp8[PARTS][QUAD] = {};
    UNROLL
    for (int i = 0; i < QUAD; i++) {
        float y[PARTS][STRIP];
        if (s.down + row + i >= s.p.rows || s.at.columns <= 0) continue;
        source::values(given[i], y);
        for (int part = 0; part < PARTS; part++) {
            fp8[part][i] = encode<source, packed>(y[part], s.at.columns, s.scale, s.statistics);
            if (q.fp8.data)
                fp8_store<packed>(s.at.of<packed, uint8_t>(q.fp8, row + i) + part * (int64_t)q.cut.run, s.at.columns,
                                  fp8[part][i]);
        }
    }
    for (int part = 0; q.transposed.data && part < PARTS; part++)
        tile_put(tile, row + s.down, s.column + part * shape<PARTS>::WIDTH, fp8[part]);
}

template <typename source, bool packed> static KERNEL(TILE_THREADS) encode_tiles(encoding_call q, source from)
{
    SHARED(fp8_tile, tile);
    enum { PARTS = source::PARTS, DOWN = shape<PARTS>::DOWN, PREFETCH = source::PREFETCH };
    tile_share s = share_of_tile<PARTS>(q);
    UNROLL
    for (int first = 0; first < shape<PARTS>::ROUNDS; first += PREFETCH) {
        typename source::given given[PREFETCH][QUAD] = {};
        UNROLL
        for (int k = 0; k < PREFETCH * QUAD; k++) {
            int row = (first + k / QUAD) * DOWN + k % QUAD;
            if (s.down + row < s.p.rows) given[k / QUAD][k % QUAD] = from.template load<packed>(s.at, row);
        }
        UNROLL
        for (int k = 0; k < PREFETCH; k++) encode_rows<source, packed>(q, s, (first + k) * DOWN, given[k], tile);
    }
    __syncthreads();
    if (q.transposed.data) tile_write<PARTS, packed>(q.transposed, tile, q.cut, s.p);
    if (q.amax) block_amax(q.amax, s.statistics.amax, tile.amax);
    if (q.counts) block_counts(q.counts, s.statistics.counts, q.cut.groups * q.cut.rows * q.cut.columns, tile.counts);
}

/* Returns whether the tensor is a matrix whose rows begin at multiples of `bytes`, or absent. */
static bool aligned(const tensor &t, int64_t bytes, int64_t element)
{
    bool all = t.dims <= 2 && reinterpret_cast<uintptr_t>(t.data) % (uintptr_t)bytes == 0;
    for (int i = 0; i < t.dims - 1; i++) all = all && (t.dim[i] == 1 || t.stride[i] * element % bytes == 0);
    return all;
}

/* Returns the FP8 operands, from operand `at` on, for values [rows, columns] (kernels.h, encoding). */
static encoding_call encoding_of(const cuda_call *c, int at, int64_t rows, int64_t columns)
{
    enum { CODES, TRANSPOSED, SCALE, AMAX, COUNTS };
    const tensor *x = c->x + at, &t = x[TRANSPOSED];
    int64_t groups = t.dims == 3 ? t.dim[0] : 1;
    return { merged(x[CODES]),
             merged(t),
             tiling_of(groups, rows / groups, columns, t.dims ? columns_of(t) : rows / groups, true),
             static_cast<const float *>(x[SCALE].data),
             static_cast<int32_t *>(x[AMAX].data),
             static_cast<unsigned long long *>(x[COUNTS].data),
             x[CODES].dims ? x[CODES].type : t.type };
}
static inline bool writes_fp8(const cuda_call *c, int at) { return c->x[at].dims > 0 || c->x[at + 1].dims > 0; }

/* packs: whether the source's operands can be read in packs. */
template <typename source>
static void encode_values(const encoding_call &e, const source &from, bool packs, cudaStream_t stream)
{
    int64_t part = e.cut.columns / source::PARTS;
    bool packed = packs && part % STRIP == 0 && e.cut.run % STRIP == 0 && aligned(e.fp8, STRIP, 1) &&
                  aligned(e.transposed, PACK, 1);
    if (e.cut.rows == 0 || e.cut.columns == 0) return;
    if (packed) LAUNCH((encode_tiles<source, true>), blocks_of(e.cut), TILE_THREADS, sizeof(fp8_tile), stream, e, from);
    else LAUNCH((encode_tiles<source, false>), blocks_of(e.cut), TILE_THREADS, sizeof(fp8_tile), stream, e, from);
}
