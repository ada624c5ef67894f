/* Sums over rows. Groups of rows are cut into parts that blocks sum in parallel, then the parts are summed the same
 * way. A thread owns a strip of columns and reads the rows of its part, eight rows at a time. [8192, 4608] BF16: 75 MB
 * by 5 x 64 blocks of 128 threads, then 1 MB by 5 blocks. */
#pragma once
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { SUM_THREADS = 128, LARGEST_PARTS = 64, SMALLEST_PART = 64 };

/* One block for each strip of columns, each part and each group. */
typedef struct {
    int64_t groups, columns, rows, part; /* rows of a group; rows of a part */
    int64_t length;                      /* columns per thread */
    int strips, parts;                   /* strips of the columns; parts of a group */
    unsigned blocks;
} sum_cut;

static inline sum_cut sum_cut_of(int64_t groups, int64_t rows, int64_t columns, int64_t length)
{
    sum_cut cut = { groups, columns, rows, parts_of(rows, LARGEST_PARTS), length, 0, 0, 0 };
    cut.strips = (int)parts_of(columns, SUM_THREADS * length);
    if (cut.part < SMALLEST_PART) cut.part = SMALLEST_PART;
    cut.parts = (int)parts_of(rows, cut.part);
    cut.blocks = (unsigned)(groups * cut.parts * cut.strips);
    return cut;
}

/* The columns of a thread, and the rows of its part. */
typedef struct {
    int64_t at, first, end;
    float *to;
} column_share;

template <int length> static __device__ __forceinline__ column_share share_of(const sum_cut &cut, float *to)
{
    int part = (int)blockIdx.x / cut.strips, strip = (int)blockIdx.x % cut.strips;
    int64_t group = part / cut.parts, begin = part % cut.parts * cut.part, end = begin + cut.part;
    column_share s = { ((int64_t)strip * SUM_THREADS + threadIdx.x) * length, group * cut.rows + begin,
                       group * cut.rows + (end < cut.rows ? end : cut.rows), to };
    s.to += part * cut.columns + s.at;
    return s;
}

template <int length>
static __device__ __forceinline__ void share_store(const column_share &s, float (&sum)[length], bool adds)
{
    if (adds) {
        strip<float, length> present = strip_load<length>(s.to, 0);
        for (int i = 0; i < length; i++) sum[i] += present.of[i];
    }
    strip_store(s.to, 0, sum);
}

template <typename type, int length>
static KERNEL(SUM_THREADS) column_sums_rows(tensor x, float *to, sum_cut cut, bool adds)
{
    column_share s = share_of<length>(cut, to);
    if (s.at >= cut.columns) return;
    float sum[length] = {};
#pragma unroll 8
    for (int64_t row = s.first; row < s.end; row++) {
        strip<type, length> values = strip_load<length>(row_of<type>(x, row), s.at);
        for (int i = 0; i < length; i++) sum[i] += widen(values.of[i]);
    }
    share_store<length>(s, sum, adds);
}

template <typename type>
static void sum_rows(const tensor &x, float *to, const sum_cut &cut, bool adds, cudaStream_t stream)
{
    if (cut.length == STRIP)
        LAUNCH((column_sums_rows<type, STRIP>), cut.blocks, SUM_THREADS, 0, stream, x, to, cut, adds);
    else LAUNCH((column_sums_rows<type, 1>), cut.blocks, SUM_THREADS, 0, stream, x, to, cut, adds);
}

/* Returns the columns that a thread can load at once, from all these tensors and for the sums. */
static inline int64_t sum_length(const tensor *all, int count)
{
    int64_t length = STRIP;
    for (int i = 0; i < count; i++)
        if (!packs(all[i], STRIP)) length = 1;
    return length;
}

/* Returns the bytes of scratch for the sums of several parts: [groups, parts, columns]. */
static inline size_t part_bytes(const sum_cut &cut)
{
    return cut.parts > 1 ? (size_t)(cut.groups * cut.parts * cut.columns) * sizeof(float) : 0;
}

static inline void sum_parts_of(const cuda_call *c, const sum_cut &cut, float *to, bool adds)
{
    tensor partial = { c->scratch, F32, 2, { cut.groups * cut.parts, cut.columns }, { cut.columns, 1 }, nullptr };
    if (cut.parts > 1)
        sum_rows<float>(partial, to, sum_cut_of(cut.groups, cut.parts, cut.columns, cut.length), adds, c->stream);
}
