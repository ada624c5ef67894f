/* max(x, 0)^2 (So et al. 2021), bit-equal to the host. A thread has a strip of 8 elements, or one remaining element.
 * [4096, 73728 / 8] BF16: forward 151 MB, backward 226 MB, by 18432 blocks of 256 threads. */
#include "machine/cuda/kernels/fp8_tiles.cuh"

enum { THREADS = 256 };

template <int length, typename type>
static __device__ __forceinline__ void forward_strip(const type *x, type *out, int64_t at)
{
    auto from = strip_load<length>(x, at);
    float y[length];
    for (int i = 0; i < length; i++) y[i] = squared_relu_value(widen(from.of[i]));
    strip_store(out, at, y);
}

template <int length, typename type>
static __device__ __forceinline__ void backward_strip(const type *x, const type *d_out, type *dx, int64_t at)
{
    auto from = strip_load<length>(x, at), d = strip_load<length>(d_out, at);
    float y[length];
    for (int i = 0; i < length; i++) y[i] = squared_relu_derivative(widen(from.of[i]), widen(d.of[i]));
    strip_store(dx, at, y);
}

/* Threads with a strip come first, then one thread for each remaining element. */
struct cut {
    int64_t strips, n;
    unsigned blocks;
};
static __device__ __forceinline__ int64_t thread_number()
{
    return static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x;
}

template <typename type> static KERNEL(THREADS) squared_relu_forward(const type *x, type *out, cut c)
{
    int64_t thread = thread_number(), at = c.strips * STRIP + thread - c.strips;
    if (thread < c.strips) forward_strip<STRIP>(x, out, thread * STRIP);
    else if (at < c.n) forward_strip<1>(x, out, at);
}

template <typename type> static KERNEL(THREADS) squared_relu_backward(const type *x, const type *d_out, type *dx, cut c)
{
    int64_t thread = thread_number(), at = c.strips * STRIP + thread - c.strips;
    if (thread < c.strips) backward_strip<STRIP>(x, d_out, dx, thread * STRIP);
    else if (at < c.n) backward_strip<1>(x, d_out, dx, at);
}

static cut cut_of(const cuda_call *c, int operands)
{
    int64_t n = elements_of(c->x[0]), strips = n / STRIP;
    for (int i = 0; i < operands; i++)
        if (reinterpret_cast<uintptr_t>(c->x[i].data) % 16) strips = 0;
    return { strips, n, static_cast<unsigned>(parts_of(strips + (n - strips * STRIP), THREADS)) };
}

/* ---- FP8 output (fp8_tiles.cuh) ---- */

struct squared_relu_values {
    enum { PARTS = 1, PREFETCH = 2, FORMAT = E4M3 };
    using value = bf16;
    tensor x;
    struct given {
        pack<bf16, STRIP> x;
    };

    template <bool packed> __device__ __forceinline__ given load(const strip_place &at, int k) const
    {
        return { strip_of<packed>(at.of<packed, const bf16>(x, k), at.columns) };
    }
    static __device__ __forceinline__ void values(const given &g, float (&y)[PARTS][STRIP])
    {
        for (int i = 0; i < STRIP; i++) y[0][i] = squared_relu_value(get(g.x, i));
    }
};

struct squared_relu_gradients {
    enum { PARTS = 1, PREFETCH = 1, FORMAT = E5M2 };
    using value = bf16;
    tensor x, d_out;
    struct given {
        pack<bf16, STRIP> x, d;
    };

    template <bool packed> __device__ __forceinline__ given load(const strip_place &at, int k) const
    {
        return { strip_of<packed>(at.of<packed, const bf16>(x, k), at.columns),
                 strip_of<packed>(at.of<packed, const bf16>(d_out, k), at.columns) };
    }
    static __device__ __forceinline__ void values(const given &g, float (&y)[PARTS][STRIP])
    {
        for (int i = 0; i < STRIP; i++) y[0][i] = squared_relu_derivative(get(g.x, i), get(g.d, i));
    }
};

static void encode_forward(const cuda_call *c, int at)
{
    const tensor x = merged(c->x[0]);
    encode_values(encoding_of(c, at, rows_of(x), columns_of(x)), squared_relu_values{ x }, aligned(x, 16, sizeof(bf16)),
                  c->stream);
}

static void encode_backward(const cuda_call *c, int at)
{
    const tensor x = merged(c->x[0]), d_out = merged(c->x[1]);
    encode_values(encoding_of(c, at, rows_of(x), columns_of(x)), squared_relu_gradients{ x, d_out },
                  aligned(x, 16, sizeof(bf16)) && aligned(d_out, 16, sizeof(bf16)), c->stream);
}

template <typename type> static type *data_of(const tensor &t) { return static_cast<type *>(t.data); }

void cuda_squared_relu_forward(const cuda_call *c)
{
    if (writes_fp8(c, 2)) return encode_forward(c, 2);
    cut n = cut_of(c, 2);
    with_type(c->x[0].type, [&](auto zero) {
        using type = decltype(zero);
        LAUNCH(squared_relu_forward<type>, n.blocks, THREADS, 0, c->stream, data_of<const type>(c->x[0]),
               data_of<type>(c->x[1]), n);
    });
}

void cuda_squared_relu_backward(const cuda_call *c)
{
    if (writes_fp8(c, 3)) return encode_backward(c, 3);
    cut n = cut_of(c, 3);
    with_type(c->x[0].type, [&](auto zero) {
        using type = decltype(zero);
        LAUNCH(squared_relu_backward<type>, n.blocks, THREADS, 0, c->stream, data_of<const type>(c->x[0]),
               data_of<const type>(c->x[1]), data_of<type>(c->x[2]), n);
    });
}
