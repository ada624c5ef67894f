/* Normal random numbers for one rank's part of a logical matrix (src/DEFINITIONS.md). Only Philox costs time: 110
 * instructions per element, 35 ms of an H100 for 8B. A block of 256 threads writes 2048 columns of a row. */
#include "base/random.h"
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { THREADS = 256 };

/* Elements outside the logical matrix become 0. There are `parts` blocks per row. */
template <typename type, int length>
static KERNEL(THREADS) initialize_rows(tensor out, int64_t columns, unsigned parts, initialize_args a)
{
    int64_t row = blockIdx.x / parts, at = (static_cast<int64_t>(blockIdx.x % parts) * THREADS + threadIdx.x) * length;
    int64_t logical_row = a.first_row + row, logical_column = a.first_column + at;
    float to[length] = {};
    if (at >= columns) return;
    for (int i = 0; i < length; i++)
        if (logical_row < a.rows && logical_column + i < a.columns)
            to[i] = normal_element(a.seed, a.key, static_cast<uint64_t>(logical_row * a.columns + logical_column + i),
                                   a.scale);
    strip_store(row_of<type>(out, row), at, to);
}

XGSW_EXTERN void cuda_initialize(const cuda_call *c)
{
    const tensor &out = c->x[0];
    int64_t columns = columns_of(out), length = packs(out, STRIP) ? STRIP : 1,
            parts = parts_of(columns, THREADS * length);
    unsigned blocks = static_cast<unsigned>(rows_of(out) * parts);
    with_type(out.type, [&](auto zero) {
        using type = decltype(zero);
        auto kernel = length == STRIP ? initialize_rows<type, STRIP> : initialize_rows<type, 1>;
        LAUNCH(kernel, blocks, THREADS, 0, c->stream, out, columns, static_cast<unsigned>(parts), c->args.initialize);
    });
}
