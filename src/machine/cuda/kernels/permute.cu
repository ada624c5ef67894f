/* Copies rows of tokens to the experts' buffers, and back as weighted sums. Bit-equal to the host, except the weights'
 * gradients. A block of 256 threads has a row, or 2048 of its columns; a thread has strips of 8. 2048 tokens of 6144,
 * 4096 rows, BF16: permute 75 MB in 12288 blocks, unpermute 75 MB in 6144, backward 126 MB in 4096. */
#include "machine/cuda/kernels/kernels.h"
#include "machine/cuda/kernels/strip.cuh"

enum { THREADS = 256, WARPS = THREADS / WARP };

static const int32_t *numbers(const tensor &t) { return static_cast<const int32_t *>(t.data); }
static const float *floats(const tensor &t) { return static_cast<const float *>(t.data); }

static __device__ __forceinline__ int64_t first_column(int length)
{
    return (static_cast<int64_t>(blockIdx.y) * THREADS + threadIdx.x) * length;
}

/* Returns whether the choice's number refers to a token of the matrix. Faulty numbers do not. */
static __device__ __forceinline__ bool is_token(const tensor &x, int32_t choice)
{
    return choice >= 0 && choice / CHOICES < (x.dims == 1 ? 1 : x.dim[0]);
}

template <typename type, int length>
static KERNEL(THREADS) permute_rows(tensor out, tensor x, const int32_t *source, int64_t columns)
{
    int64_t at = first_column(length);
    int32_t from = source[blockIdx.x];
    strip<type, length> row = {};
    if (at >= columns) return;
    if (is_token(x, from)) row = strip_load<length>(row_of<type>(x, from / CHOICES), at);
    reinterpret_cast<strip<type, length> *>(row_of<type>(out, blockIdx.x))[at / length] = row;
}

template <typename type, int length>
static KERNEL(THREADS) unpermute_rows(tensor out, tensor y, const float *weights, const int32_t *place, int64_t columns)
{
    int64_t at = first_column(length);
    float sum[length] = {};
    if (at >= columns) return;
    for (int k = 0; k < CHOICES; k++) {
        int32_t row = place[CHOICES * blockIdx.x + k];
        float weight = weights ? weights[CHOICES * blockIdx.x + k] : 1.0f;
        if (row < 0 || row >= y.dim[0]) continue;
        auto from = strip_load<length>(row_of<type>(y, row), at);
        for (int i = 0; i < length; i++) sum[i] = fmaf(weight, widen(from.of[i]), sum[i]);
    }
    strip_store(row_of<type>(out, blockIdx.x), at, sum);
}

/* The first blocks compute one row of the buffers each. The others set the weight gradients of dropped choices to 0. */
typedef struct {
    tensor d_out, y, d_y;
    const float *weights;
    const int32_t *place, *source;
    float *d_weights;
    int64_t rows, choices, columns;
} unpermute_call;

struct dot_parts {
    float of[WARPS];
};

template <typename type, int length> static KERNEL(THREADS) unpermute_backward_rows(unpermute_call c)
{
    SHARED(dot_parts, shared);
    int64_t row = blockIdx.x, choice = (row - c.rows) * THREADS + threadIdx.x;
    int32_t given = row < c.rows ? c.source[row] : -1, from = is_token(c.d_out, given) ? given : -1;
    float weight = from < 0 ? 0.0f : c.weights[from], dot = 0.0f;
    for (int64_t at = threadIdx.x * length; row < c.rows && at < c.columns; at += THREADS * length) {
        float scaled[length] = {};
        if (from >= 0) {
            auto d = strip_load<length>(row_of<type>(c.d_out, from / CHOICES), at);
            auto y = strip_load<length>(row_of<type>(c.y, row), at);
            for (int i = 0; i < length; i++) {
                scaled[i] = weight * widen(d.of[i]);
                dot = fmaf(widen(d.of[i]), widen(y.of[i]), dot);
            }
        }
        strip_store(row_of<type>(c.d_y, row), at, scaled);
    }
    dot = block_sum(dot, shared.of);
    if (from >= 0 && threadIdx.x == 0) c.d_weights[from] = dot;
    if (row >= c.rows && choice < c.choices && c.place[choice] < 0) c.d_weights[choice] = 0.0f;
}

static dim3 grid_of(int64_t rows, int64_t columns, int64_t length)
{
    return dim3(static_cast<unsigned>(rows), static_cast<unsigned>(parts_of(columns, THREADS * length)));
}

XGSW_EXTERN void cuda_permute(const cuda_call *c)
{
    const tensor out = merged(c->x[0]), x = merged(c->x[1]);
    int64_t columns = columns_of(out);
    bool fast = packs(out, STRIP) && packs(x, STRIP);
    with_type(out.type, [&](auto zero) {
        using type = decltype(zero);
        LAUNCH((fast ? permute_rows<type, STRIP> : permute_rows<type, 1>),
               grid_of(rows_of(out), columns, fast ? STRIP : 1), THREADS, 0, c->stream, out, x, numbers(c->x[2]),
               columns);
    });
}

XGSW_EXTERN void cuda_unpermute_forward(const cuda_call *c)
{
    const tensor out = merged(c->x[0]), y = merged(c->x[1]);
    int64_t columns = columns_of(out);
    bool fast = packs(out, STRIP) && packs(y, STRIP);
    with_type(out.type, [&](auto zero) {
        using type = decltype(zero);
        LAUNCH((fast ? unpermute_rows<type, STRIP> : unpermute_rows<type, 1>),
               grid_of(rows_of(out), columns, fast ? STRIP : 1), THREADS, 0, c->stream, out, y, floats(c->x[2]),
               numbers(c->x[3]), columns);
    });
}

XGSW_EXTERN void cuda_unpermute_backward(const cuda_call *c)
{
    unpermute_call b = { .d_out = merged(c->x[0]),
                         .y = merged(c->x[1]),
                         .d_y = merged(c->x[5]),
                         .weights = floats(c->x[2]),
                         .place = numbers(c->x[3]),
                         .source = numbers(c->x[4]),
                         .d_weights = static_cast<float *>(c->x[6].data),
                         .rows = elements_of(c->x[4]),
                         .choices = elements_of(c->x[3]),
                         .columns = columns_of(c->x[0]) };
    bool fast = packs(b.d_out, STRIP) && packs(b.y, STRIP) && packs(b.d_y, STRIP);
    unsigned blocks = static_cast<unsigned>(b.rows + parts_of(b.choices, THREADS));
    with_type(b.y.type, [&](auto zero) {
        using type = decltype(zero);
        LAUNCH((fast ? unpermute_backward_rows<type, STRIP> : unpermute_backward_rows<type, 1>), blocks, THREADS,
               sizeof(dot_parts), c->stream, b);
    });
}
