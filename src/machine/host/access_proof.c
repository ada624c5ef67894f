/* Checks that operations keep to their access lists. */
#include "base/fail.h"
#include "machine/host/host.h"
#include <string.h>

typedef void visitor(char *run, size_t bytes, uint64_t *sum);

static void poison(char *run, size_t bytes, uint64_t *sum) { memset(run, 0xFF, bytes); }

/* FNV-1a, eight bytes at a time. Each step is one-to-one, so a single changed word always changes the sum. */
static void checksum(char *run, size_t bytes, uint64_t *sum)
{
    for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, run + at, bytes - at < sizeof word ? bytes - at : sizeof word);
        *sum = (*sum ^ word) * 1099511628211u;
    }
}

/* Visits every contiguous run: rows of the last dim, or single elements if that dim has a stride. */
static void visit(const tensor *t, visitor *v, uint64_t *sum)
{
    size_t element = dtype_bytes(t->type);
    int64_t run = t->stride[t->dims - 1] == 1 ? t->dim[t->dims - 1] : 1;
    for (int64_t i = 0; i < tensor_elements(t); i += run)
        v((char *)t->data + (size_t)tensor_place(t, i) * element, (size_t)run * element, sum);
}

static uint64_t checksum_of(const tensor *t)
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
        if (x->access == READ) p->sum[i] = checksum_of(&x->tensor);
        if (x->access == WRITE) visit(&x->tensor, poison, NULL);
    }
}

void access_proof_after(access_proof *p, const op *o)
{
    char what[OP_TEXT];
    for (int i = 0; i < o->operands; i++) {
        const operand *x = &o->operand[i];
        if (!tensor_present(&x->tensor) || x->access != READ || p->sum[i] == checksum_of(&x->tensor)) continue;
        FAIL("%s changed its operand %d, which it only reads", op_describe(o, what, sizeof what), i);
    }
}
