/* gelu of a product plus its bias (Hendrycks & Gimpel 2016). Elements are bit-equal to the host's. Forward: one thread
 * per strip of columns, as in gated.cu. Backward also sums its columns, the gradient of the bias, so a thread goes down
 * the rows: [8192, 6144] BF16 302 MB by 6 x 64 blocks of 128 threads. */
#include "machine/cuda/kernels/column_sums.cuh"
#include "machine/cuda/kernels/fp8_tiles.cuh"

template <typename type, int length>
KERNEL(SUM_THREADS)
gelu_forward_rows(tensor x, tensor bias, tensor out, int64_t columns, int strips)
{
    int64_t row = (int)blockIdx.x / strips,
            at = ((int64_t)((int)blockIdx.x % strips) * SUM_THREADS + threadIdx.x) * length;
    if (at >= columns) return;
    strip<type, length> values = strip_load<length>(row_of<type>(x, row), at),
                        biases = strip_load<length>(static_cast<const type *>(bias.data), at);
    float y[length];
    for (int i = 0; i < length; i++) y[i] = gelu_value(widen(values.of[i]) + widen(biases.of[i]));
    strip_store(row_of<type>(out, row), at, y);
}

typedef struct {
    tensor x, bias, d_out, dx;
    sum_cut cut;
} backward_call;

template <typename type, int length> KERNEL(SUM_THREADS) gelu_backward_rows(backward_call c, float *to, bool adds)
{
    column_share s = share_of<length>(c.cut, to);
    if (s.at >= c.cut.columns) return;
    strip<type, length> biases = strip_load<length>(static_cast<const type *>(c.bias.data), s.at);
    float sum[length] = {};
#pragma unroll 2
    for (int64_t row = s.first; row < s.end; row++) {
        strip<type, length> values = strip_load<length>(row_of<type>(c.x, row), s.at),
                            d = strip_load<length>(row_of<type>(c.d_out, row), s.at);
        float y[length];
        for (int i = 0; i < length; i++) {
            y[i] = widen(d.of[i]) * gelu_derivative(widen(values.of[i]) + widen(biases.of[i]));
            sum[i] += y[i];
        }
        strip_store(row_of<type>(c.dx, row), s.at, y);
    }
    share_store<length>(s, sum, adds);
}

template <typename type> static void forward_of(const cuda_call *c)
{
    const tensor x = merged(c->x[0]), bias = c->x[1], out = merged(c->x[2]), all[] = { x, bias, out };
    int64_t columns = columns_of(x), length = sum_length(all, 3);
    int strips = (int)parts_of(columns, SUM_THREADS * length);
    unsigned blocks = (unsigned)(rows_of(x) * strips);
    if (length == STRIP)
        LAUNCH((gelu_forward_rows<type, STRIP>), blocks, SUM_THREADS, 0, c->stream, x, bias, out, columns, strips);
    else LAUNCH((gelu_forward_rows<type, 1>), blocks, SUM_THREADS, 0, c->stream, x, bias, out, columns, strips);
}

/* ---- FP8 output (fp8_tiles.cuh) ---- */

struct gelu_values {
    enum { PARTS = 1, PREFETCH = 1, FORMAT = E4M3 };
    using value = bf16;
    tensor x;
    const bf16 *bias;
    struct given {
        pack<bf16, STRIP> x, bias;
    };

    template <bool packed> __device__ __forceinline__ given load(const strip_place &at, int k) const
    {
        return { strip_of<packed>(at.of<packed, const bf16>(x, k), at.columns),
                 strip_of<packed>(bias + at.column, at.columns) };
    }
    static __device__ __forceinline__ void values(const given &g, float (&y)[PARTS][STRIP])
    {
        for (int i = 0; i < STRIP; i++) y[0][i] = gelu_value(get(g.x, i) + get(g.bias, i));
    }
};

static void encode_forward(const cuda_call *c, int at)
{
    const tensor x = merged(c->x[0]), bias = c->x[1];
    encode_values(encoding_of(c, at, rows_of(x), columns_of(x)), gelu_values{ x, static_cast<const bf16 *>(bias.data) },
                  aligned(x, 16, sizeof(bf16)) && aligned(bias, 16, sizeof(bf16)), c->stream);
}

void cuda_gelu_forward(const cuda_call *c)
{
    if (writes_fp8(c, 3)) return encode_forward(c, 3);
    with_type(c->x[0].type, [&](auto zero) { forward_of<decltype(zero)>(c); });
}

static backward_call backward_of(const cuda_call *c)
{
    backward_call b = { merged(c->x[0]), c->x[1], merged(c->x[2]), merged(c->x[3]), {} };
    const tensor all[] = { b.x, b.bias, b.d_out, b.dx, c->x[4] };
    b.cut = sum_cut_of(1, rows_of(b.x), columns_of(b.x), sum_length(all, 5));
    return b;
}

size_t cuda_gelu_backward_scratch(const cuda_call *c) { return part_bytes(backward_of(c).cut); }

void cuda_gelu_backward(const cuda_call *c)
{
    backward_call b = backward_of(c);
    bool once = b.cut.parts == 1, adds = once && c->update[4];
    float *to = static_cast<float *>(c->x[4].data), *first = once ? to : static_cast<float *>(c->scratch);
    with_type(b.x.type, [&](auto zero) {
        using type = decltype(zero);
        auto kernel = b.cut.length == STRIP ? gelu_backward_rows<type, STRIP> : gelu_backward_rows<type, 1>;
        LAUNCH(kernel, b.cut.blocks, SUM_THREADS, 0, c->stream, b, first, adds);
    });
    sum_parts_of(c, b.cut, to, c->update[4]);
}
