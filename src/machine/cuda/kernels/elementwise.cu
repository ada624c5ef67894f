/* Filling, copying, adding, and planted faults. Frequent cases move packs, four per thread at a time: copying or adding
 * [8192, 4096] BF16 moves 134 or 201 MB by 4096 blocks of 256 threads. Other cases have one thread per element. */
#include "base/fp8.h"
#include "machine/cuda/kernels/element.cuh"
#include "machine/cuda/kernels/kernels.h"

enum { THREADS = 256, PACKS = 4 };

/* ---- any format ---- */

/* Returns the offset of element i of a view. Elements are counted with the last dim fastest. */
static __device__ __forceinline__ int64_t place_of(const tensor &t, int64_t i)
{
    int64_t place = 0;
    for (int d = TENSOR_DIMS - 1; d >= 0; d--) {
        if (d >= t.dims) continue;
        place += i % t.dim[d] * t.stride[d];
        i /= t.dim[d];
    }
    return place;
}

static __device__ double value_at(const tensor &t, int64_t i)
{
    switch (t.type) {
    case F32: return (double)static_cast<float *>(t.data)[i];
    case BF16: return (double)widen(static_cast<bf16 *>(t.data)[i]);
    case F64: return static_cast<double *>(t.data)[i];
    case I32: return (double)static_cast<int32_t *>(t.data)[i];
    case E4M3:
    case E5M2: return (double)fp8_widen(t.type, static_cast<uint8_t *>(t.data)[i]);
    default: return (double)static_cast<uint64_t *>(t.data)[i];
    }
}

static __device__ void value_set(const tensor &t, int64_t i, double value)
{
    switch (t.type) {
    case F32: static_cast<float *>(t.data)[i] = (float)value; break;
    case BF16: narrow(static_cast<bf16 *>(t.data)[i], (float)value); break;
    case F64: static_cast<double *>(t.data)[i] = value; break;
    case I32: static_cast<int32_t *>(t.data)[i] = (int32_t)value; break;
    case E4M3:
    case E5M2: static_cast<uint8_t *>(t.data)[i] = fp8_round(t.type, (float)value); break;
    default: static_cast<uint64_t *>(t.data)[i] = (uint64_t)value; break;
    }
}

static __device__ __forceinline__ int64_t thread_number() { return blockIdx.x * (int64_t)blockDim.x + threadIdx.x; }

/* One thread per element. */
static unsigned blocks_for(int64_t elements) { return (unsigned)parts_of(elements, THREADS); }

/* ---- fill, and planted faults ---- */

/* Writes the same 16 bytes `count` times. */
KERNEL(THREADS) fill_packs(pack<uint32_t> *to, pack<uint32_t> value, int64_t count)
{
    for (int k = 0; k < PACKS; k++) {
        int64_t at = ((int64_t)blockIdx.x * PACKS + k) * THREADS + threadIdx.x;
        if (at < count) to[at] = value;
    }
}

KERNEL(THREADS) fill_plain(tensor t, int64_t first, int64_t end, double value)
{
    int64_t i = first + thread_number();
    if (i < end) value_set(t, place_of(t, i), value);
}

static pack<uint32_t> pattern_of(dtype type, double value)
{
    float narrow_value = (float)value;
    uint64_t bits;
    if (type == F32) bits = (uint64_t)float_bits(narrow_value) * 0x100000001u;
    else if (type == BF16) bits = (uint64_t)bf16_round(narrow_value) * 0x1000100010001u;
    else if (type == I32) bits = (uint64_t)(uint32_t)(int32_t)value * 0x100000001u;
    else if (type == U64) bits = (uint64_t)value;
    else if (type == E4M3 || type == E5M2) bits = fp8_round(type, narrow_value) * 0x101010101010101u;
    else memcpy(&bits, &value, sizeof bits);
    return { { (uint32_t)bits, (uint32_t)(bits >> 32), (uint32_t)bits, (uint32_t)(bits >> 32) } };
}

static int64_t bytes_of(dtype type) { return (int64_t)dtype_bytes(type); }

/* A view that a planted fault fills may have gaps. */
void cuda_fill(const cuda_call *c)
{
    const tensor &t = c->x[0];
    int64_t n = elements_of(t), length = 16 / bytes_of(t.type), packed = 0;
    if (contiguous(t) && reinterpret_cast<uintptr_t>(t.data) % 16 == 0) packed = n / length;
    if (packed > 0)
        LAUNCH(fill_packs, blocks_for(parts_of(packed, PACKS)), THREADS, 0, c->stream,
               static_cast<pack<uint32_t> *>(t.data), pattern_of(t.type, c->args.fill.value), packed);
    if (packed * length < n)
        LAUNCH(fill_plain, blocks_for(n - packed * length), THREADS, 0, c->stream, t, packed * length, n,
               c->args.fill.value);
}

KERNEL(THREADS) scale(tensor t, int64_t n, double factor)
{
    int64_t i = thread_number();
    if (i >= n) return;
    int64_t place = place_of(t, i);
    if (t.type == U64) static_cast<uint64_t *>(t.data)[place] *= (uint64_t)factor;
    else value_set(t, place, value_at(t, place) * factor);
}

void cuda_scale(const cuda_call *c)
{
    int64_t n = elements_of(c->x[0]);
    LAUNCH(scale, blocks_for(n), THREADS, 0, c->stream, c->x[0], n, c->args.scale.factor);
}

/* Flips the highest exponent bit, which is the one below the sign. */
KERNEL(WARP) flip(tensor t, int64_t index, int bytes)
{
    unsigned char *last = static_cast<unsigned char *>(t.data) + (place_of(t, index) + 1) * bytes - 1;
    if (threadIdx.x == 0) *last = (unsigned char)(*last ^ 0x40u);
}

void cuda_flip(const cuda_call *c)
{
    LAUNCH(flip, 1, WARP, 0, c->stream, c->x[0], c->args.flip.index, (int)bytes_of(c->x[0].type));
}

/* ---- copy ---- */

/* A thread's row, and its first pack or element in that row. */
struct part {
    int64_t row, at;
};
static __device__ __forceinline__ part part_of(int parts, int per_thread)
{
    return { (int)blockIdx.x / parts, (int64_t)((int)blockIdx.x % parts) * blockDim.x * per_thread + threadIdx.x };
}

template <typename type> static __device__ __forceinline__ void convert(type &to, type from) { to = from; }
template <typename type, typename other> static __device__ __forceinline__ void convert(type &to, other from)
{
    narrow(to, widen(from));
}

template <typename to_type, typename from_type, int LENGTH>
static __device__ __forceinline__ pack<to_type, LENGTH> converted(pack<to_type, LENGTH> to,
                                                                  const pack<from_type, LENGTH> &from, bool adds)
{
    float x[LENGTH];
    for (int i = 0; i < LENGTH; i++) x[i] = adds ? get(to, i) + get(from, i) : get(from, i);
    narrow(to, x);
    return to;
}

template <typename to_type, typename from_type, int LENGTH>
KERNEL(THREADS)
copy_packs(tensor to, tensor from, bool adds, int parts)
{
    part p = part_of(parts, PACKS);
    int64_t n = columns_of(to) / LENGTH;
    pack<to_type, LENGTH> *y = reinterpret_cast<pack<to_type, LENGTH> *>(row_of<to_type>(to, p.row)),
                          present[PACKS] = {};
    const pack<from_type, LENGTH> *x =
        reinterpret_cast<const pack<from_type, LENGTH> *>(row_of<from_type>(from, p.row));
    pack<from_type, LENGTH> given[PACKS] = {};
    for (int k = 0; k < PACKS; k++) {
        int64_t at = p.at + k * (int)blockDim.x;
        if (at < n) given[k] = x[at];
        if (adds && at < n) present[k] = y[at];
    }
    for (int k = 0; k < PACKS; k++) {
        int64_t at = p.at + k * (int)blockDim.x;
        if (at < n) y[at] = converted(present[k], given[k], adds);
    }
}

template <typename to_type, typename from_type> KERNEL(THREADS) copy_plain(tensor to, tensor from, bool adds, int parts)
{
    part p = part_of(parts, 1);
    if (p.at >= columns_of(to)) return;
    to_type &y = row_of<to_type>(to, p.row)[p.at];
    from_type x = row_of<from_type>(from, p.row)[p.at];
    if (adds) narrow(y, widen(y) + widen(x));
    else convert(y, x);
}

/* Copies formats other than F32 and BF16 through double, like the host. FP8 values of one format keep their bits. */
KERNEL(THREADS) copy_values(tensor to, tensor from, bool adds, int64_t n)
{
    int64_t i = thread_number();
    bool copies_fp8 = to.type == from.type && (to.type == E4M3 || to.type == E5M2) && !adds;
    if (i < n && copies_fp8) static_cast<uint8_t *>(to.data)[i] = static_cast<uint8_t *>(from.data)[i];
    else if (i < n) value_set(to, i, value_at(from, i) + (adds ? value_at(to, i) : 0.0));
}

/* Blocks that cover the rows in parts of THREADS x each items. An item has `length` elements. */
typedef struct {
    int threads, parts, blocks;
} cut;
static cut cut_of(const tensor &t, int64_t length, int per_thread)
{
    int64_t items = columns_of(t) / length;
    int threads = threads_for(parts_of(items, per_thread), THREADS),
        parts = (int)parts_of(items, (int64_t)threads * per_thread);
    return { threads, parts, (int)(rows_of(t) * parts) };
}

template <typename to_type, typename from_type>
static void copy_floats(const tensor &to, const tensor &from, bool adds, cudaStream_t stream)
{
    enum { LENGTH = sizeof(to_type) == sizeof(float) && sizeof(from_type) == sizeof(float) ? 4 : 8 };
    bool fast = packs(to, LENGTH) && packs(from, LENGTH);
    cut n = fast ? cut_of(to, LENGTH, PACKS) : cut_of(to, 1, 1);
    if (fast) LAUNCH((copy_packs<to_type, from_type, LENGTH>), n.blocks, n.threads, 0, stream, to, from, adds, n.parts);
    else LAUNCH((copy_plain<to_type, from_type>), n.blocks, n.threads, 0, stream, to, from, adds, n.parts);
}

static bool is_float(const tensor &t) { return t.type == F32 || t.type == BF16; }

/* Returns a contiguous tensor as one row, or as one row of 32-bit words for a copy that keeps the bits. */
static tensor flat(const tensor &t, bool words)
{
    int64_t n = elements_of(t);
    tensor row = { t.data, words ? F32 : t.type, 1, { words ? n * bytes_of(t.type) / 4 : n }, { 1 }, nullptr };
    return row;
}
static bool fits_words(const tensor &t)
{
    return reinterpret_cast<uintptr_t>(t.data) % 4 == 0 && elements_of(t) * bytes_of(t.type) % 4 == 0;
}

/* Returns whether the last two dims are contiguous, as in most heads of a fused product, and can be merged. */
static bool can_fold(const tensor &t)
{
    return t.dims > 1 && t.stride[t.dims - 1] == 1 && t.stride[t.dims - 2] == t.dim[t.dims - 1];
}

static void fold(tensor &t)
{
    t.dims--;
    t.dim[t.dims - 1] *= t.dim[t.dims];
    t.stride[t.dims - 1] = 1;
}

void cuda_copy(const cuda_call *c)
{
    tensor to = c->x[0], from = c->x[1];
    bool adds = c->update[0], dense = contiguous(to) && contiguous(from),
         keeps_bits = to.type == from.type && !adds && !is_float(to);
    int64_t n = elements_of(to);
    if (n == 0) return;
    while (can_fold(to) && can_fold(from)) fold(to), fold(from);
    bool words = keeps_bits && fits_words(to) && fits_words(from);
    to = dense ? flat(to, words) : merged(to);
    from = dense ? flat(from, words) : merged(from);
    if (!is_float(to) || !is_float(from)) LAUNCH(copy_values, blocks_for(n), THREADS, 0, c->stream, to, from, adds, n);
    else
        with_type(to.type, [&](auto y) {
            with_type(from.type, [&](auto x) { copy_floats<decltype(y), decltype(x)>(to, from, adds, c->stream); });
        });
}

/* ---- sums ---- */

template <typename type>
KERNEL(THREADS)
add_packs(pack<type> *to, const pack<type> *a, const pack<type> *b, int64_t count)
{
    pack<type> x[PACKS] = {}, y[PACKS] = {};
    int64_t first = (int64_t)blockIdx.x * PACKS * THREADS + threadIdx.x;
    for (int k = 0; k < PACKS; k++)
        if (first + k * THREADS < count) x[k] = a[first + k * THREADS], y[k] = b[first + k * THREADS];
    for (int k = 0; k < PACKS; k++)
        if (first + k * THREADS < count) to[first + k * THREADS] = converted(x[k], y[k], true);
}

template <typename type> KERNEL(THREADS) add_plain(type *to, const type *a, const type *b, int64_t first, int64_t n)
{
    int64_t i = first + thread_number();
    if (i < n) narrow(to[i], widen(a[i]) + widen(b[i]));
}

template <typename type> static void add_of(const cuda_call *c)
{
    type *to = static_cast<type *>(c->x[0].data), *a = static_cast<type *>(c->x[1].data),
         *b = static_cast<type *>(c->x[2].data);
    uintptr_t places =
        reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b);
    int64_t n = elements_of(c->x[0]), packed = places % 16 == 0 ? n / pack<type>::LENGTH : 0,
            rest = packed * pack<type>::LENGTH;
    if (packed > 0)
        LAUNCH(add_packs<type>, blocks_for(parts_of(packed, PACKS)), THREADS, 0, c->stream,
               reinterpret_cast<pack<type> *>(to), reinterpret_cast<const pack<type> *>(a),
               reinterpret_cast<const pack<type> *>(b), packed);
    if (rest < n) LAUNCH(add_plain<type>, blocks_for(n - rest), THREADS, 0, c->stream, to, a, b, rest, n);
}

void cuda_add(const cuda_call *c)
{
    with_type(c->x[0].type, [&](auto zero) { add_of<decltype(zero)>(c); });
}

/* Adds the parts in order in FP32. Loads of several parts are in flight at once. */
template <typename to_type, typename from_type>
KERNEL(THREADS)
sum_parts_packs(tensor to, const from_type *parts, int count, int64_t stride, int blocks_a_row)
{
    enum { LENGTH = 8 };
    part p = part_of(blocks_a_row, 1);
    int64_t n = columns_of(to) / LENGTH, at = p.row * n + p.at;
    if (p.at >= n) return;
    const pack<from_type, LENGTH> *x = reinterpret_cast<const pack<from_type, LENGTH> *>(parts) + at;
    float total[LENGTH];
    for (int i = 0; i < LENGTH; i++) total[i] = get(x[0], i);
#pragma unroll 4
    for (int r = 1; r < count; r++) {
        pack<from_type, LENGTH> next = x[r * (stride / LENGTH)];
        for (int i = 0; i < LENGTH; i++) total[i] += get(next, i);
    }
    pack<to_type, LENGTH> sum;
    narrow(sum, total);
    reinterpret_cast<pack<to_type, LENGTH> *>(row_of<to_type>(to, p.row))[p.at] = sum;
}

template <typename to_type, typename from_type>
KERNEL(THREADS)
sum_parts_plain(tensor to, const from_type *parts, int count, int64_t stride, int blocks_a_row)
{
    part p = part_of(blocks_a_row, 1);
    int64_t n = columns_of(to), at = p.row * n + p.at;
    if (p.at >= n) return;
    float total = widen(parts[at]);
    for (int r = 1; r < count; r++) total += widen(parts[r * stride + at]);
    narrow(row_of<to_type>(to, p.row)[p.at], total);
}

template <typename to_type, typename from_type> static void sum_parts_of(const cuda_call *c)
{
    tensor to = c->x[0];
    while (can_fold(to)) fold(to);
    to = merged(to);
    int64_t stride = elements_of(to);
    bool fast = packs(to, 8) && packs(c->x[1], 8);
    cut n = cut_of(to, fast ? 8 : 1, 1);
    const from_type *parts = static_cast<const from_type *>(c->x[1].data);
    int count = (int)c->x[1].dim[0];
    if (fast)
        LAUNCH((sum_parts_packs<to_type, from_type>), n.blocks, n.threads, 0, c->stream, to, parts, count, stride,
               n.parts);
    else
        LAUNCH((sum_parts_plain<to_type, from_type>), n.blocks, n.threads, 0, c->stream, to, parts, count, stride,
               n.parts);
}

void cuda_sum_parts(const cuda_call *c)
{
    if (elements_of(c->x[0]) == 0) return;
    with_type(c->x[0].type,
              [&](auto y) { with_type(c->x[1].type, [&](auto x) { sum_parts_of<decltype(y), decltype(x)>(c); }); });
}

/* Adds in order, therefore with one thread. There is one term per sequence of a microbatch. */
KERNEL(WARP) sum(double *out, bool adds, const double *x, int64_t n)
{
    if (threadIdx.x > 0) return;
    double total = adds ? *out : 0.0;
    for (int64_t i = 0; i < n; i++) total += x[i];
    *out = total;
}

void cuda_sum(const cuda_call *c)
{
    LAUNCH(sum, 1, WARP, 0, c->stream, static_cast<double *>(c->x[0].data), c->update[0],
           static_cast<const double *>(c->x[1].data), elements_of(c->x[1]));
}
