/* Fillers of the operations of the network. */
#include "machine/op/kernels.h"
#include "machine/op/filler.h"

static bool unit_stride(tensor t) { return t.dims == 2 && (t.stride[0] == 1 || t.stride[1] == 1); }

op matmul_op(tensor c, access_mode c_access, tensor a, tensor b)
{
    op o = op_made(OP_MATMUL, (tensor[]){ c, a, b, tensor_none(), fp8_scale_tensor(a), fp8_scale_tensor(b) },
                   (access_mode[]){ c_access });
    need(unit_stride(a) && unit_stride(b) && unit_stride(c), &o, "a matrix has no unit stride");
    need(c.dim[0] == a.dim[0] && a.dim[1] == b.dim[0] && b.dim[1] == c.dim[1], &o, "shapes do not multiply");
    need_formats(&o, c, a, b);
    return o;
}

op matmul_bias_op(tensor c, tensor a, tensor b, tensor bias)
{
    enum { BIAS = 3 };
    op o = matmul_op(c, WRITE, a, b);
    o.operand[BIAS].tensor = bias;
    need(!tensor_present(&bias) || (is_dense(bias, c.type) && tensor_elements(&bias) == c.dim[1]), &o,
         "bias is not one number of c's format a column");
    need(!tensor_present(&bias) || (c.stride[1] == 1 && c.dim[1] > 1), &o, "a product with a bias is not by rows");
    need(!tensor_present(&bias) || !is_fp8(a) || c.type == BF16, &o, "a product of FP8 values with a bias is not BF16");
    return o;
}

static bool is_vector(tensor t, int64_t n) { return walkable(t) && tensor_elements(&t) == n; }
static bool is_f32_vector(tensor t, int64_t n) { return is_dense(t, F32) && tensor_elements(&t) == n; }

op norm_forward_op(norm_forward_operands x, float epsilon)
{
    bool adds = tensor_present(&x.delta), centred = tensor_present(&x.mean);
    int64_t m = rows(x.x), n = columns(x.x);
    op o = op_made(OP_NORM_FORWARD,
                   (tensor[RULE_OPERANDS]){ x.x, x.delta, x.gain, x.sum, x.out, x.rstd, x.bias, x.mean }, NULL);
    o.args.norm.epsilon = epsilon;
    need(walkable(x.x) && walkable(x.out) && rows_by(x.out, m, n), &o, "input and output differ in shape");
    need(adds == tensor_present(&x.sum), &o, "sum and delta come together");
    need(!adds || (walkable(x.delta) && walkable(x.sum) && rows_by(x.delta, m, n) && rows_by(x.sum, m, n)), &o,
         "delta or sum has another shape");
    need(is_vector(x.gain, n), &o, "gain is not one row");
    need(is_f32_vector(x.rstd, m), &o, "rstd is not one F32 per row");
    need(centred == tensor_present(&x.bias), &o, "bias and mean come together");
    need(!centred || (is_vector(x.bias, n) && is_f32_vector(x.mean, m)), &o, "bias or mean has another shape");
    return o;
}

op norm_backward_op(norm_backward_operands x)
{
    bool centred = tensor_present(&x.mean);
    int64_t m = rows(x.x), n = columns(x.x);
    op o =
        op_made(OP_NORM_BACKWARD,
                (tensor[RULE_OPERANDS]){ x.d_out, x.x, x.rstd, x.gain, x.dx, x.gain_gradient, x.mean, x.bias_gradient },
                (access_mode[]){ x.dx_access, x.gain_access, x.bias_access });
    need(walkable(x.x) && walkable(x.d_out) && rows_by(x.d_out, m, n) && walkable(x.dx) && rows_by(x.dx, m, n), &o,
         "x, d_out and dx differ in shape");
    need(is_vector(x.gain, n), &o, "gain is not one row");
    need(is_f32_vector(x.gain_gradient, n), &o, "gain_gradient is not one F32 row");
    need(is_f32_vector(x.rstd, m), &o, "rstd is not one F32 per row");
    need(centred == tensor_present(&x.bias_gradient), &o, "mean and bias_gradient come together");
    need(!centred || (is_f32_vector(x.mean, m) && is_f32_vector(x.bias_gradient, n)), &o,
         "mean or bias_gradient is not one F32 row");
    return o;
}

static op rotation(op_kind kind, tensor x, tensor table)
{
    op o = op_made(kind, (tensor[RULE_OPERANDS]){ x, table }, NULL);
    need(x.dims == 4 && walkable(x) && x.dim[3] % 2 == 0 && x.dim[3] <= LARGEST_HEAD_DIM, &o,
         "x is not [s, b, heads, even d up to 256]");
    need(is_dense(table, F32) && table.dim[0] == x.dim[0] && tensor_elements(&table) == x.dim[0] * x.dim[3], &o,
         "table is not [s, d/2, 2] F32");
    return o;
}

op rope_forward_op(tensor x, tensor table) { return rotation(OP_ROPE_FORWARD, x, table); }
op rope_backward_op(tensor x, tensor table) { return rotation(OP_ROPE_BACKWARD, x, table); }

/* Returns whether t can hold the log of the sum of exponentials: [b, heads, s] F32, rows without gaps. */
static bool is_lse(tensor t, tensor q)
{
    return t.type == F32 && t.dims == 3 && walkable(t) && t.dim[0] == q.dim[1] && t.dim[1] == q.dim[2] &&
           t.dim[2] == q.dim[0];
}

static void need_attention(op *o, tensor q, tensor k, tensor v, tensor out, tensor lse)
{
    need(q.dims == 4 && k.dims == 4 && walkable(q) && walkable(k) && walkable(v) && walkable(out), o,
         "q, k, v and out are not [s, b, heads, d]");
    need(same_shape(k, v) && same_shape(q, out), o, "k and v, or q and out, differ in shape");
    need(q.dim[1] == k.dim[1] && q.dim[3] == k.dim[3], o, "queries and keys differ in batch or head dimension");
    need(!o->args.attention.causal || q.dim[0] <= k.dim[0], o, "causal attention of more queries than keys");
    need(k.dim[2] > 0 && q.dim[2] % k.dim[2] == 0, o, "heads are not a multiple of kv_heads");
    need(q.dim[3] % 2 == 0 && q.dim[3] <= LARGEST_HEAD_DIM, o, "head dim is odd or above 256");
    need(is_lse(lse, q), o, "lse is not [b, heads, s] F32");
}

op attention_forward_op(attention_forward_operands x, attention_args args)
{
    op o = op_made(OP_ATTENTION_FORWARD, (tensor[]){ x.q, x.k, x.v, x.out, x.lse }, NULL);
    o.args.attention = args;
    need_attention(&o, x.q, x.k, x.v, x.out, x.lse);
    return o;
}

static bool is_gradient_of(tensor d, tensor x) { return same_shape(d, x) && walkable(d); }

op attention_backward_op(attention_backward_operands x, attention_args args)
{
    op o = op_made(OP_ATTENTION_BACKWARD, (tensor[]){ x.q, x.k, x.v, x.out, x.lse, x.d_out, x.dq, x.dk, x.dv },
                   (access_mode[]){ x.dkv_access, x.dkv_access });
    o.args.attention = args;
    need_attention(&o, x.q, x.k, x.v, x.out, x.lse);
    need(same_shape(x.d_out, x.q) && walkable(x.d_out), &o, "the gradient of out has another shape");
    need(is_gradient_of(x.dq, x.q) && is_gradient_of(x.dk, x.k) && is_gradient_of(x.dv, x.v), &o,
         "a gradient has another shape, or gaps in its heads");
    need(x.dkv_access == WRITE || (x.dk.type == F32 && x.dv.type == F32), &o, "dk or dv is added to in another format");
    return o;
}

static bool is_dense_like(tensor t, tensor x) { return same_shape(t, x) && is_dense(t, x.type) && is_float(t); }

op add_op(tensor out, tensor a, tensor b)
{
    op o = op_made(OP_ADD, (tensor[]){ out, a, b }, NULL);
    need(is_dense_like(out, out) && is_dense_like(a, out) && is_dense_like(b, out), &o,
         "sum of tensors that differ in shape or format");
    return o;
}

static op gated_forward(op_kind kind, tensor gate_up, tensor out)
{
    op o = op_made(kind, (tensor[RULE_OPERANDS]){ gate_up, out }, NULL);
    need(walkable(gate_up) && walkable(out) && rows_by(gate_up, rows(out), 2 * columns(out)), &o,
         "gate_up is not [rows, 2f] for out [rows, f]");
    return o;
}

static op gated_backward(op_kind kind, tensor gate_up, tensor d_out, tensor d_gate_up)
{
    op o = op_made(kind, (tensor[RULE_OPERANDS]){ gate_up, d_out, d_gate_up }, NULL);
    need(walkable(gate_up) && walkable(d_out) && walkable(d_gate_up), &o, "a row has gaps");
    need(rows_by(gate_up, rows(d_out), 2 * columns(d_out)) && rows_by(d_gate_up, rows(d_out), 2 * columns(d_out)), &o,
         "gate_up is not [rows, 2f] for out [rows, f]");
    return o;
}

op swiglu_forward_op(tensor gate_up, tensor out) { return gated_forward(OP_SWIGLU_FORWARD, gate_up, out); }
op geglu_forward_op(tensor gate_up, tensor out) { return gated_forward(OP_GEGLU_FORWARD, gate_up, out); }

op swiglu_backward_op(tensor gate_up, tensor d_out, tensor d_gate_up)
{
    return gated_backward(OP_SWIGLU_BACKWARD, gate_up, d_out, d_gate_up);
}
op geglu_backward_op(tensor gate_up, tensor d_out, tensor d_gate_up)
{
    return gated_backward(OP_GEGLU_BACKWARD, gate_up, d_out, d_gate_up);
}

op squared_relu_forward_op(tensor x, tensor out)
{
    op o = op_made(OP_SQUARED_RELU_FORWARD, (tensor[RULE_OPERANDS]){ x, out }, NULL);
    need(is_dense_like(x, x) && is_dense_like(out, x), &o, "x and out differ in shape or format, or have gaps");
    return o;
}

op squared_relu_backward_op(tensor x, tensor d_out, tensor dx)
{
    op o = op_made(OP_SQUARED_RELU_BACKWARD, (tensor[RULE_OPERANDS]){ x, d_out, dx }, NULL);
    need(is_dense_like(x, x) && is_dense_like(d_out, x) && is_dense_like(dx, x), &o,
         "x, d_out and dx differ in shape or format, or have gaps");
    return o;
}

static void need_bias_rows(op *o, tensor x, tensor bias, tensor other)
{
    need(walkable(x) && walkable(other) && rows_by(other, rows(x), columns(x)) && other.type == x.type, o,
         "two operands [rows, f] differ");
    need(is_dense(bias, x.type) && tensor_elements(&bias) == columns(x), o,
         "bias is not one number of x's format a column");
}

op gelu_forward_op(tensor x, tensor bias, tensor out)
{
    op o = op_made(OP_GELU_FORWARD, (tensor[RULE_OPERANDS]){ x, bias, out }, NULL);
    need_bias_rows(&o, x, bias, out);
    return o;
}

op gelu_backward_op(gelu_backward_operands x)
{
    op o = op_made(OP_GELU_BACKWARD, (tensor[RULE_OPERANDS]){ x.x, x.bias, x.d_out, x.dx, x.bias_gradient },
                   (access_mode[]){ x.bias_access });
    need_bias_rows(&o, x.x, x.bias, x.d_out);
    need_bias_rows(&o, x.x, x.bias, x.dx);
    need(is_dense(x.bias_gradient, F32) && tensor_elements(&x.bias_gradient) == columns(x.x), &o,
         "bias_gradient is not one F32 row");
    return o;
}

op column_sums_op(tensor x, tensor sums, access_mode sums_access)
{
    op o = op_made(OP_COLUMN_SUMS, (tensor[]){ x, sums }, (access_mode[]){ sums_access });
    need(walkable(x) && is_dense(sums, F32) && columns(sums) == columns(x), &o, "sums are not F32 rows as long as x's");
    need(rows(sums) > 0 && rows(x) % rows(sums) == 0, &o, "groups of rows are not equal");
    return o;
}

op embedding_forward_op(embedding_forward_operands x, embedding_args args)
{
    bool adds = tensor_present(&x.positions);
    op o = op_made(OP_EMBEDDING_FORWARD, (tensor[]){ x.tokens, x.table, x.out, x.positions }, NULL);
    o.args.embedding = args;
    need(is_dense(x.tokens, I32) && walkable(x.table) && x.table.dims == 2 && walkable(x.out), &o,
         "tokens, table or out has a wrong format");
    need(rows_by(x.out, tensor_elements(&x.tokens), columns(x.table)), &o, "out is not one table row per token");
    need(!adds || (walkable(x.positions) && x.positions.type == x.table.type && x.positions.dims == 2 &&
                   columns(x.positions) == columns(x.table) && x.tokens.dims == 2 &&
                   position_of(args.place, x.tokens.dim[0] - 1, x.tokens.dim[0]) < rows(x.positions)),
         &o, "a position of tokens [s, b] has no row");
    return o;
}

op embedding_backward_op(tensor tokens, tensor d_out, tensor gradient, access_mode gradient_access, int64_t first)
{
    op o = op_made(OP_EMBEDDING_BACKWARD, (tensor[]){ tokens, d_out, gradient }, (access_mode[]){ gradient_access });
    o.args.embedding.first = first;
    need(is_dense(tokens, I32) && walkable(gradient) && gradient.dims == 2 && walkable(d_out), &o,
         "tokens, gradient or d_out has a wrong format");
    need(rows_by(d_out, tensor_elements(&tokens), columns(gradient)), &o, "d_out is not one table row per token");
    return o;
}

static op cross_entropy(const cross_entropy_operands *x, cross_entropy_part part)
{
    bool finish = part == CROSS_ENTROPY_FINISH;
    int64_t tokens = tensor_elements(&x->labels);
    op o = op_made(OP_CROSS_ENTROPY, (tensor[]){ x->logits, x->labels, x->partial, finish ? x->loss : tensor_none() },
                   (access_mode[]){ finish ? UPDATE : READ, finish ? READ : WRITE });
    o.args.cross_entropy = (cross_entropy_args){ part, x->first, x->valid, x->gradient_scale };
    need(walkable(x->logits) && rows(x->logits) == tokens && is_dense(x->labels, I32), &o,
         "logits are not one row per label");
    need(is_dense(x->partial, F32) && tokens > 0 && tensor_elements(&x->partial) % (3 * tokens) == 0, &o,
         "partial is not [.., s, b, 3] F32");
    need(finish || tensor_elements(&x->partial) == 3 * tokens, &o, "partial is not of this rank alone");
    need(!finish || (x->loss.type == F64 && x->loss.dims == 1 && tokens % x->loss.dim[0] == 0), &o,
         "loss is not [b] F64");
    return o;
}

op cross_entropy_partial_op(const cross_entropy_operands *x) { return cross_entropy(x, CROSS_ENTROPY_PARTIAL); }

op cross_entropy_finish_op(const cross_entropy_operands *x) { return cross_entropy(x, CROSS_ENTROPY_FINISH); }
