/* Views, their elements, and copies without gaps. */
#include "machine/op/tensor.h"
#include "base/fail.h"
#include "base/fp8.h"
#include "base/memory.h"

tensor tensor_none(void) { return (tensor){ .dims = 0 }; }

static tensor contiguous(void *data, dtype type, int dims, const int64_t *dim)
{
    tensor t = { .data = data, .type = type, .dims = dims };
    int64_t stride = 1;
    for (int i = dims - 1; i >= 0; i--) {
        t.dim[i] = dim[i];
        t.stride[i] = stride;
        stride *= dim[i];
    }
    return t;
}

tensor tensor_1d(void *data, dtype type, int64_t n) { return contiguous(data, type, 1, (int64_t[]){ n }); }
tensor tensor_2d(void *data, dtype type, int64_t rows, int64_t columns)
{
    return contiguous(data, type, 2, (int64_t[]){ rows, columns });
}
tensor tensor_3d(void *data, dtype type, int64_t a, int64_t b, int64_t c)
{
    return contiguous(data, type, 3, (int64_t[]){ a, b, c });
}
tensor tensor_4d(void *data, dtype type, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return contiguous(data, type, 4, (int64_t[]){ a, b, c, d });
}

bool tensor_present(const tensor *t) { return t->dims > 0; }

int64_t tensor_elements(const tensor *t)
{
    int64_t n = t->dims > 0;
    for (int i = 0; i < t->dims; i++) n *= t->dim[i];
    return n;
}

bool tensor_contiguous(const tensor *t)
{
    int64_t stride = 1;
    for (int i = t->dims - 1; i >= 0; i--) {
        if (t->dim[i] != 1 && t->stride[i] != stride) return false;
        stride *= t->dim[i];
    }
    return true;
}

int64_t tensor_place(const tensor *t, int64_t i)
{
    int64_t place = 0;
    for (int d = t->dims - 1; d >= 0; d--) {
        place += i % t->dim[d] * t->stride[d];
        i /= t->dim[d];
    }
    return place;
}

size_t tensor_span(const tensor *t)
{
    if (tensor_elements(t) == 0) return 0;
    int64_t last = 0;
    for (int i = 0; i < t->dims; i++) last += (t->dim[i] - 1) * t->stride[i];
    return (size_t)(last + 1) * dtype_bytes(t->type);
}

tensor tensor_taken(arena *a, arena_kind kind, tensor shape)
{
    shape.data = arena_take(a, kind, tensor_span(&shape));
    return shape;
}

tensor tensor_slice(tensor t, int dim, int64_t start, int64_t length)
{
    t.data = (char *)t.data + (size_t)(start * t.stride[dim]) * dtype_bytes(t.type);
    t.dim[dim] = length;
    return t;
}

tensor tensor_flat(tensor t)
{
    if (!tensor_contiguous(&t)) FAIL("tensor_flat of a tensor with gaps");
    tensor flat = tensor_1d(t.data, t.type, tensor_elements(&t));
    flat.scale = t.scale;
    return flat;
}

tensor tensor_rows(tensor t)
{
    if (!tensor_contiguous(&t)) FAIL("tensor_rows of a tensor with gaps");
    int64_t columns = t.dim[t.dims - 1];
    tensor rows = tensor_2d(t.data, t.type, tensor_elements(&t) / columns, columns);
    rows.scale = t.scale;
    return rows;
}

tensor tensor_transposed(tensor t)
{
    tensor r = t;
    int row = t.dims - 2, column = t.dims - 1;
    r.dim[row] = t.dim[column], r.dim[column] = t.dim[row];
    r.stride[row] = t.stride[column], r.stride[column] = t.stride[row];
    return r;
}

double tensor_value(const tensor *t, int64_t i)
{
    switch (t->type) {
    case F32: return (double)((const float *)t->data)[i];
    case BF16: return (double)bf16_widen(((const uint16_t *)t->data)[i]);
    case F64: return ((const double *)t->data)[i];
    case I32: return (double)((const int32_t *)t->data)[i];
    case U64: return (double)((const uint64_t *)t->data)[i];
    case E4M3:
    case E5M2: return (double)fp8_widen(t->type, ((const uint8_t *)t->data)[i]);
    default: FAIL("a tensor of no known format");
    }
}

/* ---- gathering ---- */

static const size_t BUFFER_BYTES = (size_t)1 << 26;

tensor tensor_dense(tensor t)
{
    int order[TENSOR_DIMS]; /* dimensions from the longest stride to the shortest */
    int64_t stride = 1;
    for (int d = 0; d < t.dims; d++) {
        int i = d;
        while (i > 0 && t.stride[order[i - 1]] < t.stride[d]) order[i] = order[i - 1], i--;
        order[i] = d;
    }
    for (int i = t.dims - 1; i >= 0; i--) {
        t.stride[order[i]] = stride;
        stride *= t.dim[order[i]];
    }
    return t;
}

bool tensor_same_elements(const tensor *a, const tensor *b)
{
    bool same = a->data == b->data && a->type == b->type && tensor_span(a) == tensor_span(b);
    bool alike = a->dims == b->dims;
    for (int d = 0; alike && d < a->dims; d++)
        alike = a->dim[d] == b->dim[d] && (a->dim[d] == 1 || a->stride[d] == b->stride[d]);
    return same && (alike || (tensor_contiguous(a) && tensor_contiguous(b)));
}

static int longest_dim(const tensor *t)
{
    int longest = 0;
    for (int d = 1; d < t->dims; d++)
        if ((t->dim[d] - 1) * t->stride[d] > (t->dim[longest] - 1) * t->stride[longest]) longest = d;
    return longest;
}

static void gather(tensor to, tensor t, tensor_reader *read, void *from, char *buffer)
{
    size_t bytes = dtype_bytes(t.type);
    int d = longest_dim(&t);
    if (tensor_span(&t) > BUFFER_BYTES) {
        int64_t half = t.dim[d] / 2;
        gather(tensor_slice(to, d, 0, half), tensor_slice(t, d, 0, half), read, from, buffer);
        gather(tensor_slice(to, d, half, t.dim[d] - half), tensor_slice(t, d, half, t.dim[d] - half), read, from,
               buffer);
        return;
    }
    read(from, buffer, t);
    for (int64_t i = 0; i < tensor_elements(&t); i++)
        memcpy((char *)to.data + (size_t)tensor_place(&to, i) * bytes, buffer + (size_t)tensor_place(&t, i) * bytes,
               bytes);
}

void tensor_gather(tensor to, tensor t, tensor_reader *read, void *from)
{
    size_t bytes = tensor_span(&t) < BUFFER_BYTES ? tensor_span(&t) : BUFFER_BYTES;
    char *buffer = allocate(1, bytes, "a buffer");
    gather(to, t, read, from, buffer);
    free(buffer);
}
