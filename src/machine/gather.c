/* Gathering. */
#include "machine/gather.h"
#include "base/fail.h"
#include <stdlib.h>
#include <string.h>

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

bool tensor_twins(const tensor *a, const tensor *b)
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

static void gather(tensor to, tensor t, op_reader *read, void *from, char *buffer)
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

void tensor_gather(tensor to, tensor t, op_reader *read, void *from)
{
    size_t bytes = tensor_span(&t) < BUFFER_BYTES ? tensor_span(&t) : BUFFER_BYTES;
    char *buffer = malloc(bytes + 1);
    if (!buffer) FAIL("no memory for a buffer of %zu bytes", bytes);
    gather(to, t, read, from, buffer);
    free(buffer);
}
