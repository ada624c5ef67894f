/* Mirrors tensors of tests for machines with separate memory. Tensors are in the caller's memory; each operation gets a
 * copy of the bytes that its operands span, with gaps, which is copied back afterwards. Tests are linked with
 * --wrap=op_submit, so that fillers submit through this file. */
#pragma once
#include "machine/queue/machine.h"
#include "units/tests.h"

enum { MIRROR_ALIGNMENT = 256 };
typedef struct {
    char *begin, *end, *memory, *copy;
} mirror; /* the caller's bytes, the machine's block, a copy of the upload */

mark __real_op_submit(queue *q, const op *o);
mark __wrap_op_submit(queue *q, const op *o);

static inline machine_kind tested_machine(void)
{
    const char *name = getenv("XGSW_TEST_MACHINE");
    return name && strcmp(name, "cuda") == 0 ? MACHINE_CUDA : MACHINE_HOST;
}

/* The machine whose operations are mirrored; NULL if none, or while nothing runs. */
static machine *mirrored;
static inline void mirror_through(machine *m) { mirrored = tested_machine() == MACHINE_HOST ? NULL : m; }

/* Adds the bytes from begin to end and merges them with overlapping ranges. */
static inline int mirror_add(mirror *all, int count, char *begin, char *end)
{
    for (int i = 0; i < count; i++)
        if (begin < all[i].end && all[i].begin < end) {
            begin = begin < all[i].begin ? begin : all[i].begin;
            end = end > all[i].end ? end : all[i].end;
            all[i--] = all[--count];
        }
    all[count] = (mirror){ .begin = begin, .end = end };
    return count + 1;
}

/* Keeps the alignment of the original address. */
static inline char *mirror_place(const mirror *m, const char *p)
{
    return m->memory + (uintptr_t)m->begin % MIRROR_ALIGNMENT + (p - m->begin);
}

static inline tensor mirror_bytes(const mirror *m)
{
    return tensor_1d(mirror_place(m, m->begin), E4M3, m->end - m->begin);
}

static inline void mirror_upload(mirror *m)
{
    size_t bytes = (size_t)(m->end - m->begin);
    m->memory = machine_memory_take(tested_machine(), bytes + (uintptr_t)m->begin % MIRROR_ALIGNMENT);
    m->copy = malloc(bytes);
    memcpy(m->copy, m->begin, bytes);
    machine_upload(mirrored, mirror_bytes(m), m->copy);
}

static inline void mirror_download(mirror *m)
{
    machine_sync(mirrored);
    machine_read(mirrored, m->begin, mirror_bytes(m));
    machine_memory_give_back(tested_machine(), m->memory);
}

static inline const mirror *mirror_of(const mirror *all, const tensor *t)
{
    while ((char *)t->data < all->begin || (char *)t->data >= all->end) all++;
    return all;
}

static inline bool mirror_overlap(const tensor *a, const tensor *b)
{
    const char *x = a->data, *y = b->data;
    return tensor_span(a) && tensor_span(b) && x < y + tensor_span(b) && y < x + tensor_span(a);
}

/* Checks that read-only operands are unchanged, unless a written operand lies between their rows. */
static inline void mirror_check_reads(const mirror *all, const op *o)
{
    for (int i = 0; i < o->operands; i++) {
        const tensor *t = &o->operand[i].tensor;
        bool only_read = o->operand[i].access == READ && tensor_span(t) > 0;
        for (int k = 0; k < o->operands; k++)
            only_read = only_read && (o->operand[k].access == READ || !mirror_overlap(t, &o->operand[k].tensor));
        if (!only_read) continue;
        const mirror *m = mirror_of(all, t);
        if (memcmp(t->data, m->copy + ((char *)t->data - m->begin), tensor_span(t)) != 0)
            fail_msg("%s wrote operand %d, which it reads", op_kind_name(o->kind), i);
    }
}

mark __wrap_op_submit(queue *q, const op *o)
{
    mirror all[OP_OPERANDS];
    op there = *o;
    int count = 0;
    if (!mirrored) return __real_op_submit(q, o);
    for (int i = 0; i < o->operands; i++) {
        const tensor *t = &o->operand[i].tensor;
        if (tensor_span(t)) count = mirror_add(all, count, t->data, (char *)t->data + tensor_span(t));
    }
    for (int i = 0; i < count; i++) mirror_upload(&all[i]);
    for (int i = 0; i < o->operands; i++)
        if (tensor_span(&o->operand[i].tensor))
            there.operand[i].tensor.data =
                mirror_place(mirror_of(all, &o->operand[i].tensor), o->operand[i].tensor.data);
    mark m = __real_op_submit(q, &there);
    for (int i = 0; i < count; i++) mirror_download(&all[i]);
    mirror_check_reads(all, o);
    for (int i = 0; i < count; i++) free(all[i].copy);
    return m;
}
