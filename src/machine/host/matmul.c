/* Matrix products, single ones and those of several groups at once, on oneDNN. BF16 is widened to FP32 in scratch where
 * the processor cannot multiply it: the products are exact either way, and the sums are rounded once. */
#include "machine/host/host.h"
#include "machine/host/row.h"

enum { C, A, B, BIAS };

static int64_t columns(const tensor *t) { return t->dim[t->dims - 1]; }
static bool by_columns(const tensor *t) { return t->stride[t->dims - 1] != 1 && columns(t) != 1; }

/* oneDNN writes rows fast, so a product into a matrix of contiguous columns is made transposed: c' = b' a'. */
static void operands_of(const op *o, tensor x[3])
{
    bool swap = by_columns(&o->operand[C].tensor);
    for (int i = 0; i < 3; i++) x[i] = o->operand[swap && i ? A + B - i : i].tensor;
    for (int i = 0; swap && i < 3; i++) x[i] = tensor_transposed(x[i]);
}

static bool widens(const tensor x[3]) { return x[A].type == BF16 && !onednn_multiplies_bf16(); }

static tensor contiguous_rows(tensor t) { return by_columns(&t) ? tensor_transposed(t) : t; }

static int64_t aligned(int64_t floats) { return (floats + TILE - 1) / TILE * TILE; }
static int64_t widened_floats(const tensor *t) { return t->type == BF16 ? aligned(tensor_elements(t)) : 0; }

/* The same matrices in FP32 in scratch, without gaps, contiguous the way they were; FP32 stays where it is. */
static tensor widened(const tensor *t, float *scratch)
{
    tensor rows = contiguous_rows(*t);
    if (t->type == F32) return *t;
    tensor wide = t->dims == 2 ? tensor_2d(scratch, F32, rows.dim[0], rows.dim[1])
                               : tensor_3d(scratch, F32, rows.dim[0], rows.dim[1], rows.dim[2]);
    return by_columns(t) ? tensor_transposed(wide) : wide;
}

/* Places in scratch for what is widened; returns the floats they take. */
static int64_t widened_operands(const tensor x[3], tensor wide[3], float *scratch)
{
    int64_t used = 0;
    for (int i = C; i <= B; i++) {
        wide[i] = widened(&x[i], scratch ? scratch + used : NULL);
        used += widened_floats(&x[i]);
    }
    return used;
}

static void widen(const tensor *from, const tensor *to)
{
    tensor narrow = contiguous_rows(*from), wide = contiguous_rows(*to);
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < tensor_row_count(&narrow); row++)
        row_load(tensor_row(&wide, row, 0), tensor_row(&narrow, row, 0), BF16, columns(&narrow));
}

static void narrow(const tensor *from, const tensor *to)
{
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < tensor_row_count(to); row++)
        row_store(tensor_row(to, row, 0), BF16, tensor_row(from, row, 0), columns(to));
}

static void multiply_widened(const tensor x[3], access_mode how, float *scratch)
{
    tensor wide[3];
    int64_t used = widened_operands(x, wide, scratch);
    for (int i = how == UPDATE ? C : A; i <= B; i++)
        if (x[i].type == BF16) widen(&x[i], &wide[i]);
    onednn_multiply(wide, how, scratch + used);
    if (x[C].type == BF16) narrow(&wide[C], &x[C]);
}

static bool has_bias(const op *o) { return tensor_present(&o->operand[BIAS].tensor); }
static access_mode access_of(const op *o) { return has_bias(o) ? UPDATE : o->operand[C].access; }

size_t host_matmul_scratch(const op *o)
{
    tensor x[3], wide[3];
    operands_of(o, x);
    if (!widens(x)) return onednn_scratch(x, access_of(o));
    size_t floats = (size_t)widened_operands(x, wide, NULL);
    return floats * sizeof(float) + onednn_scratch(wide, access_of(o));
}

/* Every row is the bias: the product is then added to it. */
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
    tensor x[3];
    operands_of(o, x);
    if (has_bias(o)) fill_rows(&o->operand[C].tensor, &o->operand[BIAS].tensor);
    if (widens(x)) multiply_widened(x, access_of(o), scratch);
    else onednn_multiply(x, access_of(o), scratch);
}

size_t host_grouped_matmul_scratch(const op *o) { return host_matmul_scratch(o); }
void host_grouped_matmul(const op *o, void *scratch) { host_matmul(o, scratch); }
