/* Rows of the embedding table by token, plus rows of position embeddings, and the sums of their gradients. Each row is
 * moved once. A block of 256 threads has 2048 columns of a row, a thread a strip of 8. 8B (8192 tokens, 128256 x 4096,
 * BF16): forward 134 MB in 16384 blocks; backward reads 67 MB of d_out, and moves 134 MB (UPDATE: only rows with
 * tokens) or 1.05 GB (WRITE) of the gradient. */
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { THREADS = 256 };

/* The positions of tokens [s, b], and the position embeddings. An absent table adds nothing. */
typedef struct {
    tensor table;
    position_args place;
    int64_t length, batch;
} added_rows;

/* out [token] = table [row], or 0 if this rank does not hold the row. */
template <typename from_type, typename to_type, int length>
static KERNEL(THREADS) embedding_rows(const int32_t *token, tensor table, tensor out, int64_t first, added_rows added)
{
    int64_t row = token[blockIdx.x] - first, at = (static_cast<int64_t>(blockIdx.y) * THREADS + threadIdx.x) * length;
    if (at >= columns_of(table)) return;
    float to[length] = {};
    if (row >= 0 && row < table.dim[0]) {
        auto from = strip_load<length>(row_of<from_type>(table, row), at);
        for (int i = 0; i < length; i++) to[i] = widen(from.of[i]);
        if (added.table.dims > 0) {
            int64_t position = position_of(added.place, blockIdx.x / added.batch, added.length);
            auto more = strip_load<length>(row_of<from_type>(added.table, position), at);
            for (int i = 0; i < length; i++) to[i] += widen(more.of[i]);
        }
    }
    strip_store(row_of<to_type>(out, blockIdx.x), at, to);
}

XGSW_EXTERN void cuda_embedding_forward(const cuda_call *c)
{
    const tensor &tokens = c->x[0], &table = c->x[1], &out = c->x[2];
    const int32_t *token = static_cast<const int32_t *>(tokens.data);
    added_rows added = { c->x[3], c->args.embedding.place, tokens.dim[0], elements_of(tokens) / tokens.dim[0] };
    bool fast = packs(table, STRIP) && packs(out, STRIP) && (added.table.dims == 0 || packs(added.table, STRIP));
    int64_t columns = columns_of(table), length = fast ? STRIP : 1;
    dim3 grid(static_cast<unsigned>(elements_of(tokens)), static_cast<unsigned>(parts_of(columns, THREADS * length)));
    with_type(table.type, [&](auto from) {
        with_type(out.type, [&](auto to) {
            using from_type = decltype(from);
            using to_type = decltype(to);
            auto kernel =
                length == STRIP ? embedding_rows<from_type, to_type, STRIP> : embedding_rows<from_type, to_type, 1>;
            LAUNCH(kernel, grid, THREADS, 0, c->stream, token, table, out, c->args.embedding.first, added);
        });
    });
}

/* Tokens sorted by row. A row has count[row] tokens, from order[begin[row]] on, in position order. begin and arrival
 * depend on timing, but the order within a row does not. */
typedef struct {
    const int32_t *token;
    int64_t first, rows, tokens;
    unsigned *count, *begin; /* [rows]; begin only where count > 0 */
    unsigned *arrival, *list,
        *order;     /* [tokens]: arrival number in its row; positions by arrival; positions in order */
    unsigned *used; /* entries of list in use */
} by_row;

static __device__ __forceinline__ int64_t thread_number()
{
    return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/* Returns the row of token i, or -1 if this rank does not hold it. */
static __device__ __forceinline__ int64_t held_row(const by_row &s, int64_t i)
{
    int64_t row = i < s.tokens ? s.token[i] - s.first : -1;
    return row < s.rows ? row : -1;
}

static KERNEL(THREADS) clear_counts(by_row s)
{
    int64_t row = thread_number();
    if (row < s.rows) s.count[row] = 0;
    if (row == 0) *s.used = 0;
}

static KERNEL(THREADS) count_tokens(by_row s)
{
    int64_t i = thread_number(), row = held_row(s, i);
    if (row >= 0) s.arrival[i] = atomicAdd(&s.count[row], 1u);
}

/* The first token of a row reserves entries for all tokens of that row. */
static KERNEL(THREADS) place_lists(by_row s)
{
    int64_t i = thread_number(), row = held_row(s, i);
    if (row >= 0 && s.arrival[i] == 0) s.begin[row] = atomicAdd(s.used, s.count[row]);
}

static KERNEL(THREADS) fill_lists(by_row s)
{
    int64_t i = thread_number(), row = held_row(s, i);
    if (row >= 0) s.list[s.begin[row] + s.arrival[i]] = static_cast<unsigned>(i);
}

/* Places each token after the tokens of its row with smaller positions. */
static KERNEL(THREADS) order_lists(by_row s)
{
    int64_t i = thread_number(), row = held_row(s, i);
    if (row < 0) return;
    const unsigned *list = s.list + s.begin[row];
    unsigned before = 0, count = s.count[row];
#pragma unroll 8
    for (unsigned k = 0; k < count; k++) before += list[k] < static_cast<unsigned>(i);
    s.order[s.begin[row] + before] = static_cast<unsigned>(i);
}

/* Sets one strip of a gradient row to the FP32 sum of its tokens' rows, or adds that sum. Rounds once. */
template <typename from_type, typename to_type, int length>
static __device__ __forceinline__ void sum_strip(const by_row &s, const tensor &d_out, to_type *place, int64_t row,
                                                 int64_t at, bool update)
{
    float sum[length] = {};
    unsigned count = s.count[row];
    const unsigned *order = s.order + (count ? s.begin[row] : 0);
#pragma unroll 4
    for (unsigned k = 0; k < count; k++) {
        auto d = strip_load<length>(row_of<from_type>(d_out, order[k]), at);
        for (int i = 0; i < length; i++) sum[i] += widen(d.of[i]);
    }
    if (update) {
        auto present = strip_load<length>(place, at);
        for (int i = 0; i < length; i++) sum[i] += widen(present.of[i]);
    }
    strip_store(place, at, sum);
}

/* UPDATE: one block per token; only that of a row's first arrival works. WRITE: one block per row. */
template <typename from_type, typename to_type, int length>
static KERNEL(THREADS) sum_rows(by_row s, tensor d_out, tensor gradient, int64_t columns, bool update)
{
    int64_t row = update ? held_row(s, blockIdx.x) : blockIdx.x,
            at = (static_cast<int64_t>(blockIdx.y) * THREADS + threadIdx.x) * length;
    bool works = at < columns && row >= 0 && (!update || s.arrival[blockIdx.x] == 0);
    if (works) sum_strip<from_type, to_type, length>(s, d_out, row_of<to_type>(gradient, row), row, at, update);
}

static by_row by_row_of(const cuda_call *c)
{
    by_row s = {};
    s.token = static_cast<const int32_t *>(c->x[0].data);
    s.first = c->args.embedding.first;
    s.rows = c->x[2].dim[0];
    s.tokens = elements_of(c->x[0]);
    s.count = static_cast<unsigned *>(c->scratch);
    s.begin = s.count + s.rows;
    s.arrival = s.begin + s.rows;
    s.list = s.arrival + s.tokens;
    s.order = s.list + s.tokens;
    s.used = s.order + s.tokens;
    return s;
}

XGSW_EXTERN size_t cuda_embedding_backward_scratch(const cuda_call *c)
{
    return static_cast<size_t>(2 * c->x[2].dim[0] + 3 * elements_of(c->x[0]) + 1) * sizeof(unsigned);
}

static void sort_tokens(const cuda_call *c, const by_row &s)
{
    unsigned rows = static_cast<unsigned>(parts_of(s.rows, THREADS)),
             tokens = static_cast<unsigned>(parts_of(s.tokens, THREADS));
    LAUNCH(clear_counts, rows, THREADS, 0, c->stream, s);
    LAUNCH(count_tokens, tokens, THREADS, 0, c->stream, s);
    LAUNCH(place_lists, tokens, THREADS, 0, c->stream, s);
    LAUNCH(fill_lists, tokens, THREADS, 0, c->stream, s);
    LAUNCH(order_lists, tokens, THREADS, 0, c->stream, s);
}

XGSW_EXTERN void cuda_embedding_backward(const cuda_call *c)
{
    const tensor &d_out = c->x[1], &gradient = c->x[2];
    bool update = c->update[2];
    int64_t columns = columns_of(gradient), length = packs(d_out, STRIP) && packs(gradient, STRIP) ? STRIP : 1;
    by_row s = by_row_of(c);
    dim3 grid(static_cast<unsigned>(update ? s.tokens : s.rows),
              static_cast<unsigned>(parts_of(columns, THREADS * length)));
    sort_tokens(c, s);
    with_type(d_out.type, [&](auto from) {
        with_type(gradient.type, [&](auto to) {
            using from_type = decltype(from);
            using to_type = decltype(to);
            auto kernel = length == STRIP ? sum_rows<from_type, to_type, STRIP> : sum_rows<from_type, to_type, 1>;
            LAUNCH(kernel, grid, THREADS, 0, c->stream, s, d_out, gradient, columns, update);
        });
    });
}
