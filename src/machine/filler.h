/* What fillers of computing operations share: making an op, noting accesses, checking formats and shapes. */
#pragma once
#include "base/fail.h"
#include "machine/kernels.h"
#include "machine/op_judge.h"

static inline op named(queue *q, op_kind kind, const char *name)
{
    op o = { .kind = kind, .origin = *machine_origin_now(queue_machine(q)) };
    o.origin.name = name;
    return o;
}

static inline void use(op *o, tensor t, access_mode how) { o->operand[o->operands++] = (operand){ t, how }; }

static inline void need(bool condition, const op *o, const char *what)
{
    if (!condition) op_lacks(o, what);
}

static inline bool is_float(tensor t) { return t.type == F32 || t.type == BF16; }
static inline int64_t columns(tensor t) { return t.dims ? t.dim[t.dims - 1] : 0; }
static inline int64_t rows(tensor t) { return columns(t) ? tensor_elements(&t) / columns(t) : 0; }
static inline bool rows_by(tensor t, int64_t m, int64_t n) { return rows(t) == m && columns(t) == n; }

/* Rows of numbers a kernel can walk: each row without gaps. */
static inline bool walkable(tensor t)
{
    return t.dims > 0 && is_float(t) && (columns(t) == 1 || t.stride[t.dims - 1] == 1);
}
static inline bool plain(tensor t, dtype type) { return t.type == type && tensor_contiguous(&t); }
static inline bool same_elements(tensor a, tensor b) { return tensor_elements(&a) == tensor_elements(&b); }

static inline bool same_shape(tensor a, tensor b)
{
    bool same = a.dims == b.dims;
    for (int i = 0; same && i < a.dims; i++) same = a.dim[i] == b.dim[i];
    return same;
}
