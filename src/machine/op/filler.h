/* Functions shared by fillers: they make an op, check formats and shapes, and note the first error. */
#pragma once
#include "machine/op/op.h"

/* Notes in o->error the first condition that is false. */
static inline void need(bool condition, op *o, const char *what)
{
    if (!condition && !o->error) o->error = what;
}

/* Makes an op. operands: in the rule's order, tensor_none() if absent. chosen: accesses that the rule leaves open. */
static inline op op_made(op_kind kind, const tensor *operands, const access_mode *chosen)
{
    op o = { .kind = kind };
    for (const operand_rule *r = op_rules[kind].operand; r->name; r++) {
        tensor t = operands[o.operands];
        need(r->optional || tensor_present(&t), &o, "an operand is missing");
        o.operand[o.operands++] = (operand){ t, r->chosen ? *chosen++ : r->access };
    }
    return o;
}

static inline bool is_float(tensor t) { return t.type == F32 || t.type == BF16; }
static inline bool is_fp8(tensor t) { return t.type == E4M3 || t.type == E5M2; }
static inline int64_t columns(tensor t) { return t.dims ? t.dim[t.dims - 1] : 0; }
static inline int64_t rows(tensor t) { return columns(t) ? tensor_elements(&t) / columns(t) : 0; }
static inline bool rows_by(tensor t, int64_t m, int64_t n) { return rows(t) == m && columns(t) == n; }

/* Returns the factors of an FP8 tensor as an operand [FP8_FACTORS] F32; an absent operand for other formats. */
static inline tensor fp8_scale_tensor(tensor x)
{
    return is_fp8(x) && x.scale ? tensor_1d(x.scale, F32, FP8_FACTORS) : tensor_none();
}

/* Checks the formats of a product c = a b, of matrices or of groups of matrices (fp8_kernels.c). */
void need_formats(op *o, tensor c, tensor a, tensor b);

/* Returns whether a kernel can walk the rows: F32 or BF16, each row without gaps. */
static inline bool walkable(tensor t)
{
    return t.dims > 0 && is_float(t) && (columns(t) == 1 || t.stride[t.dims - 1] == 1);
}
static inline bool is_dense(tensor t, dtype type) { return t.type == type && tensor_contiguous(&t); }
static inline bool same_count(tensor a, tensor b) { return tensor_elements(&a) == tensor_elements(&b); }

static inline bool same_shape(tensor a, tensor b)
{
    bool same = a.dims == b.dims;
    for (int i = 0; same && i < a.dims; i++) same = a.dim[i] == b.dim[i];
    return same;
}
