/* Tensors are views. */
#include "machine/tensor.h"
#include "base/fail.h"
#include "base/numeric.h"

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
    return tensor_1d(t.data, t.type, tensor_elements(&t));
}

tensor tensor_rows(tensor t)
{
    if (!tensor_contiguous(&t)) FAIL("tensor_rows of a tensor with gaps");
    int64_t columns = t.dim[t.dims - 1];
    return tensor_2d(t.data, t.type, tensor_elements(&t) / columns, columns);
}

tensor tensor_transposed(tensor t)
{
    tensor r = t;
    r.dim[0] = t.dim[1], r.dim[1] = t.dim[0];
    r.stride[0] = t.stride[1], r.stride[1] = t.stride[0];
    return r;
}

double tensor_value(const tensor *t, int64_t i)
{
    return (double)(t->type == BF16 ? bf16_widen(((const uint16_t *)t->data)[i]) : ((const float *)t->data)[i]);
}
