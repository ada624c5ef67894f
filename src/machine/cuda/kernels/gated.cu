/* silu(gate) * up and gelu(gate) * up, where gate and up are the halves of one row (Shazeer 2020). Bit-equal to the
 * host. A thread has one pack of columns: two loads at once forward, three backward. [8192, 2 x 14336] BF16: forward
 * 705 MB, backward 1174 MB, by 57344 blocks of 256 threads, seven per row. The sigmoid uses the host's polynomial and
 * rounded division, so that bits agree. They take about 33 and 40 instructions per element; an H100's memory leaves
 * time for 53 and 88, so approximate ex2 and rcp would gain nothing. */
#include "machine/cuda/kernels/fp8_tiles.cuh"

enum { THREADS = 256 };

struct swiglu {
    static __device__ __forceinline__ float value(float gate, float up) { return swiglu_value(gate, up); }
    static __device__ __forceinline__ gated_gradient derivative(float gate, float up, float d)
    {
        return swiglu_derivative(gate, up, d);
    }
};
struct geglu {
    static __device__ __forceinline__ float value(float gate, float up) { return geglu_value(gate, up); }
    static __device__ __forceinline__ gated_gradient derivative(float gate, float up, float d)
    {
        return geglu_derivative(gate, up, d);
    }
};

/* A row is divided into `parts` blocks. */
static __device__ __forceinline__ int64_t part_row(int parts) { return (int)blockIdx.x / parts; }
static __device__ __forceinline__ int64_t part_column(int parts)
{
    return ((int)blockIdx.x % parts) * (int)blockDim.x + (int)threadIdx.x;
}

template <typename rule, typename type> KERNEL(THREADS) gated_forward_packs(tensor gate_up, tensor out, int parts)
{
    int64_t row = part_row(parts), at = part_column(parts), half = columns_of(out) / pack<type>::LENGTH;
    const pack<type> *from = reinterpret_cast<const pack<type> *>(row_of<type>(gate_up, row)) + at;
    float y[pack<type>::LENGTH];
    if (at >= half) return;
    pack<type> gate = from[0], up = from[half];
    for (int i = 0; i < pack<type>::LENGTH; i++) y[i] = rule::value(get(gate, i), get(up, i));
    narrow(gate, y);
    reinterpret_cast<pack<type> *>(row_of<type>(out, row))[at] = gate;
}

template <typename rule, typename type>
KERNEL(THREADS)
gated_backward_packs(tensor gate_up, tensor d_out, tensor d_gate_up, int parts)
{
    int64_t row = part_row(parts), at = part_column(parts), half = columns_of(d_out) / pack<type>::LENGTH;
    const pack<type> *from = reinterpret_cast<const pack<type> *>(row_of<type>(gate_up, row)) + at;
    pack<type> *to = reinterpret_cast<pack<type> *>(row_of<type>(d_gate_up, row)) + at;
    float d_gate[pack<type>::LENGTH], d_up[pack<type>::LENGTH];
    if (at >= half) return;
    pack<type> gate = from[0], up = from[half], d = reinterpret_cast<const pack<type> *>(row_of<type>(d_out, row))[at];
    for (int i = 0; i < pack<type>::LENGTH; i++) {
        gated_gradient g = rule::derivative(get(gate, i), get(up, i), get(d, i));
        d_gate[i] = g.gate;
        d_up[i] = g.up;
    }
    narrow(gate, d_gate);
    narrow(up, d_up);
    to[0] = gate;
    to[half] = up;
}

template <typename rule> KERNEL(THREADS) gated_forward_plain(tensor gate_up, tensor out, int parts)
{
    int64_t row = part_row(parts), at = part_column(parts), half = columns_of(out);
    line from = line_of(gate_up, row);
    if (at < half) put(line_of(out, row), at, rule::value(get(from, at), get(from, half + at)));
}

template <typename rule> KERNEL(THREADS) gated_backward_plain(tensor gate_up, tensor d_out, tensor d_gate_up, int parts)
{
    int64_t row = part_row(parts), at = part_column(parts), half = columns_of(d_out);
    line from = line_of(gate_up, row), to = line_of(d_gate_up, row);
    if (at >= half) return;
    gated_gradient g = rule::derivative(get(from, at), get(from, half + at), get(line_of(d_out, row), at));
    put(to, at, g.gate);
    put(to, half + at, g.up);
}

/* ---- FP8 output (fp8_tiles.cuh) ---- */

template <typename rule> struct gated_values {
    enum { PARTS = 1, PREFETCH = 1, FORMAT = E4M3 };
    using value = bf16;
    tensor gate_up;
    int64_t half;
    struct given {
        pack<bf16, STRIP> gate, up;
    };

    template <bool packed> __device__ __forceinline__ given load(const strip_place &at, int k) const
    {
        const bf16 *row = at.of<packed, const bf16>(gate_up, k);
        return { strip_of<packed>(row, at.columns), strip_of<packed>(row + half, at.columns) };
    }
    static __device__ __forceinline__ void values(const given &x, float (&y)[PARTS][STRIP])
    {
        for (int i = 0; i < STRIP; i++) y[0][i] = rule::value(get(x.gate, i), get(x.up, i));
    }
};

/* The two halves of a row are the parts of a tile. */
template <typename rule> struct gated_gradients {
    enum { PARTS = 2, PREFETCH = 1, FORMAT = E5M2 };
    using value = bf16;
    tensor gate_up, d_out;
    int64_t half;
    struct given {
        pack<bf16, STRIP> gate, up, d;
    };

    template <bool packed> __device__ __forceinline__ given load(const strip_place &at, int k) const
    {
        const bf16 *row = at.of<packed, const bf16>(gate_up, k);
        return { strip_of<packed>(row, at.columns), strip_of<packed>(row + half, at.columns),
                 strip_of<packed>(at.of<packed, const bf16>(d_out, k), at.columns) };
    }
    static __device__ __forceinline__ void values(const given &x, float (&y)[PARTS][STRIP])
    {
        for (int i = 0; i < STRIP; i++) {
            gated_gradient g = rule::derivative(get(x.gate, i), get(x.up, i), get(x.d, i));
            y[0][i] = g.gate;
            y[1][i] = g.up;
        }
    }
};

template <typename rule> static void encode_forward(const cuda_call *c, int at)
{
    const tensor gate_up = merged(c->x[0]);
    int64_t half = columns_of(gate_up) / 2;
    encode_values(encoding_of(c, at, rows_of(gate_up), half), gated_values<rule>{ gate_up, half },
                  aligned(gate_up, 16, sizeof(bf16)), c->stream);
}

template <typename rule> static void encode_backward(const cuda_call *c, int at)
{
    const tensor gate_up = merged(c->x[0]), d_out = merged(c->x[1]);
    int64_t half = columns_of(d_out);
    encoding_call e = encoding_of(c, at, rows_of(gate_up), 2 * half);
    e.cut.run = (unsigned)half;
    encode_values(e, gated_gradients<rule>{ gate_up, d_out, half },
                  aligned(gate_up, 16, sizeof(bf16)) && aligned(d_out, 16, sizeof(bf16)), c->stream);
}

/* Blocks of `threads` threads with one pack each (plain kernels: one column). half: a tensor of one half's shape. */
typedef struct {
    int threads, parts, blocks;
} cut;
static cut cut_of(const tensor &half, int64_t length)
{
    int64_t items = columns_of(half) / length;
    int threads = threads_for(items, THREADS), parts = (int)parts_of(items, threads);
    return { threads, parts, (int)(rows_of(half) * parts) };
}

static int64_t pack_length(dtype type) { return type == BF16 ? 8 : 4; }
static bool alike(const tensor &a, const tensor &b, int64_t length)
{
    return a.type == b.type && packs(a, length) && packs(b, length);
}

template <typename rule> static void forward(const cuda_call *c)
{
    if (writes_fp8(c, 2)) return encode_forward<rule>(c, 2);
    const tensor gate_up = merged(c->x[0]), out = merged(c->x[1]);
    int64_t length = pack_length(out.type);
    bool fast = alike(gate_up, out, length);
    cut n = cut_of(out, fast ? length : 1);
    if (!fast) LAUNCH(gated_forward_plain<rule>, n.blocks, n.threads, 0, c->stream, gate_up, out, n.parts);
    else
        with_type(out.type, [&](auto zero) {
            LAUNCH((gated_forward_packs<rule, decltype(zero)>), n.blocks, n.threads, 0, c->stream, gate_up, out,
                   n.parts);
        });
}

template <typename rule> static void backward(const cuda_call *c)
{
    if (writes_fp8(c, 3)) return encode_backward<rule>(c, 3);
    const tensor gate_up = merged(c->x[0]), d_out = merged(c->x[1]), d_gate_up = merged(c->x[2]);
    int64_t length = pack_length(d_out.type);
    bool fast = alike(gate_up, d_out, length) && alike(d_gate_up, d_out, length);
    cut n = cut_of(d_out, fast ? length : 1);
    if (!fast)
        LAUNCH(gated_backward_plain<rule>, n.blocks, n.threads, 0, c->stream, gate_up, d_out, d_gate_up, n.parts);
    else
        with_type(d_out.type, [&](auto zero) {
            LAUNCH((gated_backward_packs<rule, decltype(zero)>), n.blocks, n.threads, 0, c->stream, gate_up, d_out,
                   d_gate_up, n.parts);
        });
}

void cuda_swiglu_forward(const cuda_call *c) { forward<swiglu>(c); }
void cuda_swiglu_backward(const cuda_call *c) { backward<swiglu>(c); }
void cuda_geglu_forward(const cuda_call *c) { forward<geglu>(c); }
void cuda_geglu_backward(const cuda_call *c) { backward<geglu>(c); }
