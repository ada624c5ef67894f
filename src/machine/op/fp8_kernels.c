/* Fillers of FP8 operations. */
#include "machine/op/filler.h"
#include "machine/op/kernels.h"

tensor fp8_transposed_shape(dtype type, int64_t groups, int64_t m, int64_t n)
{
    int64_t padded = (m + FP8_ALIGNMENT - 1) / FP8_ALIGNMENT * FP8_ALIGNMENT;
    return groups ? tensor_3d(NULL, type, groups, n, padded) : tensor_2d(NULL, type, n, padded);
}

static bool aligned(int64_t n) { return n % FP8_ALIGNMENT == 0; }

/* Checks what cuBLASLt requires of FP8 on Hopper, for [m, k] and [k, n], or groups of them. */
static void need_aligned(op *o, tensor c, tensor a, tensor b)
{
    int row = a.dims - 2, column = row + 1;
    need(a.scale && b.scale, o, "FP8 values without a scale");
    need(a.type == E4M3 || b.type == E4M3, o, "both are E5M2");
    need(is_float(c), o, "the product of FP8 values is neither BF16 nor FP32");
    need(a.stride[column] == 1 && b.stride[row] == 1, o, "FP8 values are not contiguous along the sum");
    need(aligned(a.dim[column]) && aligned(a.stride[row]) && aligned(b.stride[column]) &&
             aligned(c.stride[column] == 1 ? c.dim[column] : c.dim[row]),
         o, "sizes of an FP8 product are not multiples of 16");
}

void need_formats(op *o, tensor c, tensor a, tensor b)
{
    if (is_fp8(a) && is_fp8(b)) need_aligned(o, c, a, b);
    else need(is_float(a) && a.type == b.type && (c.type == F32 || c.type == a.type), o, "formats do not multiply");
}

/* Returns whether t is [n, padded m], or [groups, n, padded m / groups] where group g has rows g, g + groups, ... */
static bool is_transposed_of(tensor t, int64_t m, int64_t n)
{
    int64_t groups = t.dims == 3 ? t.dim[0] : 1;
    tensor shape = fp8_transposed_shape(t.type, t.dims == 3 ? groups : 0, m / groups, n);
    return is_fp8(t) && m % groups == 0 && same_shape(t, shape) && tensor_contiguous(&t);
}

/* Sets the last operands, which encode values [m, n]. */
static void add_encoding(op *o, int64_t m, int64_t n, encoding to)
{
    bool by_rows = tensor_present(&to.codes), by_columns = tensor_present(&to.transposed);
    tensor codes = by_rows ? to.codes : to.transposed;
    const tensor operands[] = { to.codes, to.transposed, fp8_scale_tensor(codes), to.amax, to.counts };
    for (int i = 0; i < ENCODING_OPERANDS; i++) o->operand[o->operands - ENCODING_OPERANDS + i].tensor = operands[i];
    need(!by_rows || (is_fp8(to.codes) && rows_by(to.codes, m, n) && tensor_contiguous(&to.codes)), o,
         "the FP8 output differs in size or has gaps");
    need(!by_columns || is_transposed_of(to.transposed, m, n), o, "the transposed copy has another shape");
    need(!by_rows || !by_columns || (to.codes.type == to.transposed.type && to.codes.scale == to.transposed.scale), o,
         "FP8 values and their transposed copy differ in format or scale");
    need(!tensor_present(&codes) || codes.scale, o, "FP8 values without a scale");
    need(!tensor_present(&to.amax) || (is_dense(to.amax, I32) && tensor_elements(&to.amax) == 1), o,
         "amax is not one number");
    need(!tensor_present(&to.counts) ||
             (is_dense(to.counts, U64) && tensor_elements(&to.counts) == FP8_COUNTS && tensor_present(&codes)),
         o, "counts have the wrong type or size");
}

op quantize_op(tensor x, encoding to)
{
    op o = op_made(OP_QUANTIZE, (tensor[RULE_OPERANDS]){ x }, NULL);
    need(walkable(x), &o, "x is not rows of numbers");
    add_encoding(&o, rows(x), columns(x), to);
    return o;
}

op encode_op(op o, encoding to)
{
    int i = 0;
    if (!tensor_present(&to.codes) && !tensor_present(&to.transposed)) return o;
    while (op_rules[o.kind].operand[i].name && !op_rules[o.kind].operand[i].encoded) i++;
    need(op_rules[o.kind].operand[i].name, &o, "this operation has no FP8 output");
    if (o.error) return o;
    tensor values = o.operand[i].tensor;
    if (op_rules[o.kind].operand[i].encoded == ENCODED_INSTEAD) o.operand[i].tensor = tensor_none();
    add_encoding(&o, rows(values), columns(values), to);
    return o;
}

op encode_rotated_op(op o, tensor whole, encoding to)
{
    tensor *x = &o.operand[0].tensor;
    if (!tensor_present(&to.codes) && !tensor_present(&to.transposed)) return o;
    need(whole.dims == 4 && tensor_contiguous(&whole) && whole.type == x->type && whole.data == x->data &&
             whole.dim[0] == x->dim[0] && whole.dim[1] == x->dim[1] && x->stride[2] == whole.stride[2],
         &o, "what is rotated is not the first heads of the whole");
    o.args.rope = (rope_args){ x->dim[2], x->dim[3] };
    o.operand[0] = (operand){ whole, READ };
    add_encoding(&o, whole.dim[0] * whole.dim[1], whole.dim[2] * whole.dim[3], to);
    return o;
}

op transpose_op(tensor out, tensor x)
{
    int row = x.dims - 2;
    op o = op_made(OP_TRANSPOSE, (tensor[]){ out, x }, NULL);
    need((x.dims == 2 || x.dims == 3) && is_fp8(x) && out.type == x.type, &o, "these are not matrices of FP8 values");
    if (o.error) return o;
    need(x.stride[row + 1] == 1, &o, "a row has gaps");
    need(tensor_contiguous(&out) &&
             same_shape(out, fp8_transposed_shape(x.type, row ? x.dim[0] : 0, x.dim[row], x.dim[row + 1])),
         &o, "the transposed copy has another shape");
    return o;
}

op fp8_scales_op(fp8_scales_operands x, fp8_scales_args args)
{
    int64_t n = tensor_elements(&x.amax);
    bool keeps = tensor_present(&x.history);
    op o = op_made(OP_FP8_SCALES, (tensor[]){ x.scalars, x.amax, x.history, x.scales }, NULL);
    o.args.fp8_scales = args;
    need(!keeps || (is_dense(x.scalars, F64) && tensor_elements(&x.scalars) == STEP_SCALARS), &o,
         "these are not the step's scalars");
    need(is_dense(x.amax, I32) && is_dense(x.scales, F32) && tensor_elements(&x.scales) == n * FP8_FACTORS, &o,
         "amaxes and scales are not as many");
    need(!keeps || (is_dense(x.history, I32) && rows_by(x.history, FP8_HISTORY, n)), &o,
         "the history is not amaxes of its steps");
    return o;
}

/* ---- operations that encode, split into several ---- */

static int encoded_operand(const op *o)
{
    int i = 0;
    while (!op_rules[o->kind].operand[i].encoded) i++;
    return i;
}

static bool encodes_instead(const op *o)
{
    return op_rules[o->kind].operand[encoded_operand(o)].encoded == ENCODED_INSTEAD;
}

/* Returns the shape of the values. rope_backward encodes operand 0; in other kinds, the output has its rows and
 * format. */
static tensor values_of(const op *o, void *scratch)
{
    const operand *e = &o->operand[op_encoding(o)];
    const tensor *codes = &e[ENCODING_CODES].tensor, *t = &e[ENCODING_TRANSPOSED].tensor, *x = &o->operand[0].tensor;
    int64_t n = tensor_present(codes) ? columns(*codes) : t->dim[t->dims - 2];
    int64_t m = o->kind == OP_ROPE_BACKWARD ? x->dim[0] * x->dim[1] : rows(*x);
    return tensor_2d(scratch, x->type, m, n);
}

size_t encoded_bytes(const op *o)
{
    if (op_encoding(o) < 0 || !encodes_instead(o)) return 0;
    tensor values = values_of(o, NULL);
    return (tensor_span(&values) + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

/* Returns a copy of the whole [s, b, heads, d] to scratch; `values` then rotates it as rope_args says. */
static op copy_for_rotation(op *values, tensor copy)
{
    tensor whole = values->operand[0].tensor, x = whole;
    rope_args rotated = values->args.rope;
    x.data = copy.data;
    values->operand[0] = (operand){ tensor_slice(tensor_slice(x, 2, 0, rotated.heads), 3, 0, rotated.width), UPDATE };
    return copy_op(tensor_flat(copy), WRITE, tensor_flat(whole));
}

encoded_parts encoded_parts_of(const op *o, void *scratch)
{
    int at = op_encoding(o), out = encoded_operand(o);
    encoded_parts p = { .values = *o, .codes = { .kind = OP_QUANTIZE, .operands = 1 + ENCODING_OPERANDS } };
    tensor values = encodes_instead(o) ? values_of(o, scratch) : o->operand[out].tensor;
    for (int i = 0; i < ENCODING_OPERANDS; i++) {
        p.codes.operand[1 + i] = o->operand[at + i];
        p.values.operand[at + i].tensor = tensor_none();
    }
    p.codes.operand[0].tensor = values;
    if (o->kind == OP_ROPE_BACKWARD) p.copied = copy_for_rotation(&p.values, values);
    else p.values.operand[out].tensor = values;
    p.codes.origin = p.copied.origin = o->origin;
    return p;
}
