/* Proof of access lists. */
#include "machine/host/prove.h"
#include "base/fail.h"
#include <string.h>

typedef void visitor(char *run, size_t bytes, uint64_t *sum);

static void poison(char *run, size_t bytes, uint64_t *sum)
{
    (void)sum;
    memset(run, 0xFF, bytes);
}

static void checksum(char *run, size_t bytes, uint64_t *sum)
{
    for (size_t i = 0; i < bytes; i++) *sum = (*sum ^ (uint8_t)run[i]) * 1099511628211u;
}

/* The tensor's shape with four dimensions, leading ones of length 1. */
static tensor four_dims(const tensor *t)
{
    tensor r = { .data = t->data, .type = t->type, .dims = TENSOR_DIMS, .dim = { 1, 1, 1, 1 } };
    for (int i = 0; i < t->dims; i++) {
        r.dim[TENSOR_DIMS - t->dims + i] = t->dim[i];
        r.stride[TENSOR_DIMS - t->dims + i] = t->stride[i];
    }
    return r;
}

/* Visits every contiguous run: rows of the fastest dimension, or single elements if that has a stride. */
static void visit(const tensor *given, visitor *v, uint64_t *sum)
{
    tensor t = four_dims(given);
    size_t element = dtype_bytes(t.type);
    int64_t run = t.stride[3] == 1 ? t.dim[3] : 1;
    for (int64_t i = 0; i < t.dim[0]; i++)
        for (int64_t j = 0; j < t.dim[1]; j++)
            for (int64_t k = 0; k < t.dim[2]; k++)
                for (int64_t l = 0; l < t.dim[3]; l += run) {
                    int64_t at = i * t.stride[0] + j * t.stride[1] + k * t.stride[2] + l * t.stride[3];
                    v((char *)t.data + (size_t)at * element, (size_t)run * element, sum);
                }
}

static uint64_t sum_of(const tensor *t)
{
    uint64_t sum = 14695981039346656037u;
    visit(t, checksum, &sum);
    return sum;
}

void access_proof_before(access_proof *p, const op *o)
{
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        if (!tensor_present(&x->tensor)) continue;
        if (x->access == READ) p->sum[i] = sum_of(&x->tensor);
        if (x->access == WRITE) visit(&x->tensor, poison, NULL);
    }
}

void access_proof_after(access_proof *p, const op *o)
{
    char what[OP_TEXT];
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        if (!tensor_present(&x->tensor) || x->access != READ || p->sum[i] == sum_of(&x->tensor)) continue;
        FAIL("%s changed its operand %d, which it only reads", op_describe(o, what, sizeof what), i);
    }
}
