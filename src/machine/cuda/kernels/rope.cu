/* Rotary positions: pairs (x[i], x[i + d/2]) are rotated by the angles of their position (Su et al. 2021). A block
 * rotates all rows of one position, so that angles come from the cache. A thread loads a pack of each half at once. x
 * is read and written once: 134 MB for [8192, 1, 32, 128] BF16, by 8192 blocks of 256 threads. */
#include "machine/cuda/kernels/fp8_tiles.cuh"

enum { THREADS = 256 };

struct pair {
    float a, b;
};

static __device__ __forceinline__ pair rotated_pair(pair x, float cosine, float sine)
{
    return { fmaf(x.a, cosine, -(x.b * sine)), fmaf(x.b, cosine, x.a * sine) };
}

/* Returns the row of one batch row and head. The block's number is the position. */
template <typename type> static __device__ __forceinline__ type *head_of(const tensor &x, int row)
{
    int heads = (int)x.dim[2];
    return static_cast<type *>(x.data) + blockIdx.x * x.stride[0] + row / heads * x.stride[1] +
           row % heads * x.stride[2];
}

template <typename type> KERNEL(THREADS) rope_packs(tensor x, const float *table, float sign)
{
    enum { LENGTH = pack<type>::LENGTH };
    int half = (int)x.dim[3] / 2, packs = half / LENGTH, rows = (int)(x.dim[1] * x.dim[2]);
    const pack<float, 2 *LENGTH> *angles =
        reinterpret_cast<const pack<float, 2 * LENGTH> *>(table + blockIdx.x * (int64_t)(2 * half));
    for (int i = threadIdx.x; i < rows * packs; i += blockDim.x) {
        pack<type> *low = reinterpret_cast<pack<type> *>(head_of<type>(x, i / packs)) + i % packs, *high = low + packs;
        pack<type> a = *low, b = *high;
        pack<float, 2 *LENGTH> angle = angles[i % packs];
        float first[LENGTH], second[LENGTH];
        for (int k = 0; k < LENGTH; k++) {
            pair y = rotated_pair({ get(a, k), get(b, k) }, angle.of[2 * k], sign * angle.of[2 * k + 1]);
            first[k] = y.a;
            second[k] = y.b;
        }
        narrow(a, first);
        narrow(b, second);
        *low = a;
        *high = b;
    }
}

template <typename type> KERNEL(THREADS) rope_plain(tensor x, const float *table, float sign)
{
    int half = (int)x.dim[3] / 2, rows = (int)(x.dim[1] * x.dim[2]);
    const float *angles = table + blockIdx.x * (int64_t)(2 * half);
    for (int i = threadIdx.x; i < rows * half; i += blockDim.x) {
        int k = i % half;
        type *low = head_of<type>(x, i / half) + k, *high = low + half;
        pair y = rotated_pair({ widen(*low), widen(*high) }, angles[2 * k], sign * angles[2 * k + 1]);
        narrow(*low, y.a);
        narrow(*high, y.b);
    }
}

template <typename type> static void rotate_view(const tensor &x, const tensor &table, float sign, cudaStream_t stream)
{
    const float *angles = static_cast<const float *>(table.data);
    int64_t half = x.dim[3] / 2, rows = x.dim[1] * x.dim[2];
    int positions = (int)x.dim[0];
    bool fast =
        packs(x, pack<type>::LENGTH) && half % pack<type>::LENGTH == 0 && reinterpret_cast<uintptr_t>(angles) % 16 == 0;
    int threads = threads_for(rows * half / (fast ? pack<type>::LENGTH : 1), THREADS);
    if (fast) LAUNCH(rope_packs<type>, positions, threads, 0, stream, x, angles, sign);
    else LAUNCH(rope_plain<type>, positions, threads, 0, stream, x, angles, sign);
}

static void rotate(const cuda_call *c, float sign)
{
    with_type(c->x[0].type, [&](auto zero) { rotate_view<decltype(zero)>(c->x[0], c->x[1], sign, c->stream); });
}

/* ---- backward with FP8 output of all heads (fp8_tiles.cuh) ---- */

/* The halves of heads are the parts of a tile. Strips of heads that are not rotated are only converted. */
struct rotated_back {
    enum { PARTS = 2, PREFETCH = 1, FORMAT = E5M2 };
    using value = bf16;
    tensor x;                      /* [s * b, heads * d] */
    const float *table;            /* read in packs */
    unsigned half, batch, rotated; /* columns of half a head; rows of a position; rotated columns */
    using angles = pack<float, 2 * STRIP>;
    struct given {
        pack<bf16, STRIP> low, high;
        const angles *angles_at;
    };

    template <bool packed> __device__ __forceinline__ given load(const strip_place &at, int k) const
    {
        const bf16 *row = at.of<packed, const bf16>(x, k);
        const float *first = table + ((unsigned)at.row(k) / batch * (int64_t)half + (unsigned)at.column % half) * 2;
        return { strip_of<packed>(row, at.columns), strip_of<packed>(row + half, at.columns),
                 at.column < rotated ? reinterpret_cast<const angles *>(first) : NULL };
    }
    static __device__ __forceinline__ void values(const given &g, float (&y)[PARTS][STRIP])
    {
        const angles by = g.angles_at ? *g.angles_at : angles{};
        for (int i = 0; i < STRIP; i++) {
            pair x = { get(g.low, i), get(g.high, i) };
            if (g.angles_at) x = rotated_pair(x, by.of[2 * i], -by.of[2 * i + 1]);
            y[0][i] = x.a;
            y[1][i] = x.b;
        }
    }
};

static void encode_backward(const cuda_call *c, int at)
{
    const tensor &x = c->x[0];
    int64_t d = x.dim[3], rows = x.dim[0] * x.dim[1], columns = x.dim[2] * d;
    tensor matrix = { x.data, x.type, 2, { rows, columns }, { columns, 1 }, NULL };
    encoding_call e = encoding_of(c, at, rows, columns);
    rotated_back from = { matrix, static_cast<const float *>(c->x[1].data), (unsigned)(d / 2), (unsigned)x.dim[1],
                          (unsigned)(c->args.rope.heads * d) };
    e.cut.run = (unsigned)(d / 2);
    encode_values(e, from, aligned(matrix, 16, sizeof(bf16)), c->stream);
}

void cuda_rope_forward(const cuda_call *c) { rotate(c, 1.0f); }
void cuda_rope_backward(const cuda_call *c)
{
    if (writes_fp8(c, 2)) encode_backward(c, 2);
    else rotate(c, -1.0f);
}
