/* products/: matrix products by oneDNN, and their check. FP8 is widened to BF16 or FP32 in scratch, and BF16 to FP32 if
 * the processor cannot multiply it. Products are exact and sums are rounded once. A right operand that oneDNN would
 * read slowly is copied to scratch with a gap after each row. */
#include "machine/host/host.h"
#include "machine/host/rows/fp8_rows.h"
#include "machine/host/rows/row.h"

enum { C, A, B, BIAS, A_SCALE, B_SCALE };
enum { ROW_GAP = 16 }; /* elements */

static bool by_columns(const tensor *t) { return t->stride[t->dims - 1] != 1 && tensor_columns(t) != 1; }

/* If c has contiguous columns, the product is computed transposed, c' = b' a', because oneDNN writes rows faster. */
static void operands_of(const op *o, tensor x[3])
{
    bool swap = by_columns(&o->operand[C].tensor);
    for (int i = 0; i < 3; i++) x[i] = o->operand[swap && i ? A + B - i : i].tensor;
    for (int i = 0; swap && i < 3; i++) x[i] = tensor_transposed(x[i]);
}

static bool is_fp8(dtype type) { return type == E4M3 || type == E5M2; }
/* The scales are the last two operands: a grouped product has no bias before them. */
static const tensor *scale_of(const op *o, int which) { return &o->operand[o->operands - 2 + (which == B)].tensor; }

/* Returns the format for multiplying. FP8 values become BF16 only if both scales are powers of two, which is exact. */
static dtype format_of(const op *o)
{
    bool native = onednn_multiplies_bf16();
    if (o->operand[A].tensor.type == F32) return F32;
    for (int i = A; is_fp8(o->operand[A].tensor.type) && i <= B; i++)
        native = native && !(float_bits(*(const float *)scale_of(o, i)->data) & 0x7FFFFFu);
    return native ? BF16 : F32;
}

static bool widens(const tensor *t, dtype to) { return dtype_bytes(t->type) < dtype_bytes(to); }

static tensor contiguous_rows(tensor t) { return by_columns(&t) ? tensor_transposed(t) : t; }

/* Returns the layout of a copy in format `to`, in the same order, with `gap` unused elements after each row. */
static tensor copy_layout(const tensor *t, dtype to, int64_t gap)
{
    tensor rows = contiguous_rows(*t);
    int last = t->dims - 1;
    tensor copy = last == 1 ? tensor_2d(NULL, to, rows.dim[0], rows.dim[1])
                            : tensor_3d(NULL, to, rows.dim[0], rows.dim[1], rows.dim[2]);
    copy.stride[last - 1] += gap;
    if (last == 2) copy.stride[0] = copy.dim[1] * copy.stride[1];
    return by_columns(t) ? tensor_transposed(copy) : copy;
}

/* Sets the matrices to multiply: x, or copies in scratch. Returns the bytes of all copies. */
static size_t place_copies(const tensor x[3], dtype to, tensor copy[3], char *scratch)
{
    size_t used = 0;
    for (int i = C; i <= B; i++) {
        copy[i] = widens(&x[i], to) ? copy_layout(&x[i], to, 0) : x[i];
        bool gap = i == B && onednn_prefers_row_gap(copy);
        if (gap) copy[B] = copy_layout(&x[B], to, ROW_GAP);
        if (!gap && !widens(&x[i], to)) continue;
        copy[i].data = scratch ? scratch + used : NULL;
        used += (tensor_span(&copy[i]) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    }
    return used;
}

static void copy_row(const tensor *to, const tensor *from, int64_t row, const float *scale)
{
    void *copy = tensor_row(to, row, 0), *old = tensor_row(from, row, 0);
    int64_t n = tensor_columns(from);
    if (!is_fp8(from->type)) row_load(copy, old, from->type, n);
    else if (to->type == BF16) fp8_dequantize_bf16(from->type, copy, old, *scale, n);
    else fp8_dequantize_f32(from->type, copy, old, *scale, n);
}

static void copy_rows(const tensor *from, const tensor *to, const float *scale)
{
    tensor rows = contiguous_rows(*from), copy = contiguous_rows(*to);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < tensor_row_count(&rows); row++) copy_row(&copy, &rows, row, scale);
}

static void round_to_bf16(const tensor *from, const tensor *to)
{
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < tensor_row_count(to); row++)
        row_store(tensor_row(to, row, 0), BF16, tensor_row(from, row, 0), tensor_columns(to));
}

static bool has_bias(const op *o) { return o->kind == OP_MATMUL && tensor_present(&o->operand[BIAS].tensor); }
static access_mode access_of(const op *o) { return has_bias(o) ? UPDATE : o->operand[C].access; }

static size_t scratch_for(const tensor x[3], dtype to, access_mode access)
{
    tensor copy[3];
    size_t bytes = place_copies(x, to, copy, NULL);
    return bytes + onednn_scratch(copy, access);
}

/* FP8 scales are known only when the product runs, so scratch suffices for both formats. */
size_t host_matmul_scratch(const op *o)
{
    tensor x[3];
    operands_of(o, x);
    bool fp8 = is_fp8(x[A].type), native = onednn_multiplies_bf16();
    size_t as_f32 = fp8 || x[A].type == F32 || !native ? scratch_for(x, F32, access_of(o)) : 0;
    size_t as_bf16 = x[A].type != F32 && native ? scratch_for(x, BF16, access_of(o)) : 0;
    return as_f32 > as_bf16 ? as_f32 : as_bf16;
}

/* Sets every row to the bias. The product is then added. */
static void fill_rows(const tensor *c, const tensor *bias)
{
    size_t bytes = dtype_bytes(c->type);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < c->dim[0]; row++)
        for (int64_t i = 0; i < c->dim[1]; i++)
            memcpy(row_at(c->data, c->type, row * c->stride[0] + i * c->stride[1]), row_at(bias->data, c->type, i),
                   bytes);
}

void host_matmul(const op *o, void *scratch)
{
    tensor x[3], copy[3];
    operands_of(o, x);
    bool swapped = by_columns(&o->operand[C].tensor);
    dtype to = format_of(o);
    if (has_bias(o)) fill_rows(&o->operand[C].tensor, &o->operand[BIAS].tensor);
    size_t used = place_copies(x, to, copy, scratch);
    for (int i = access_of(o) == UPDATE ? C : A; i <= B; i++)
        if (copy[i].data != x[i].data)
            copy_rows(&x[i], &copy[i], i == C ? NULL : scale_of(o, swapped ? A + B - i : i)->data);
    onednn_multiply(copy, access_of(o), (char *)scratch + used);
    if (widens(&x[C], to)) round_to_bf16(&copy[C], &x[C]);
}

void host_grouped_matmul(const op *o, void *scratch) { host_matmul(o, scratch); }
