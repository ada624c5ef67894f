/* Fillers of the network's operations: they check shapes, note accesses and submit. Operands stand in the order in
 * which kernels.h names them; an absent one keeps its place. */
#include "machine/filler.h"

static bool unit_stride(tensor t) { return t.dims == 2 && (t.stride[0] == 1 || t.stride[1] == 1); }

mark matmul(queue *q, const char *name, tensor c, access_mode c_access, tensor a, tensor b)
{
    op o = named(q, OP_MATMUL, name);
    use(&o, c, c_access);
    use(&o, a, READ);
    use(&o, b, READ);
    need(unit_stride(a) && unit_stride(b) && unit_stride(c), &o, "a matrix has no unit stride");
    need(c.dim[0] == a.dim[0] && a.dim[1] == b.dim[0] && b.dim[1] == c.dim[1], &o, "shapes do not multiply");
    need(is_float(a) && a.type == b.type && (c.type == F32 || c.type == a.type), &o, "formats do not multiply");
    return op_submit(q, &o);
}

mark norm_forward(queue *q, const char *name, norm_forward_operands x, float epsilon)
{
    op o = named(q, OP_NORM_FORWARD, name);
    bool adds = tensor_present(&x.delta);
    int64_t m = rows(x.x), n = columns(x.x);
    o.args.norm.epsilon = epsilon;
    use(&o, x.x, READ);
    use(&o, x.delta, READ);
    use(&o, x.gain, READ);
    use(&o, x.sum, WRITE);
    use(&o, x.out, WRITE);
    use(&o, x.rstd, WRITE);
    need(walkable(x.x) && walkable(x.out) && rows_by(x.out, m, n), &o, "input and output differ in shape");
    need(adds == tensor_present(&x.sum), &o, "sum and delta come together");
    need(!adds || (walkable(x.delta) && walkable(x.sum) && rows_by(x.delta, m, n) && rows_by(x.sum, m, n)), &o,
         "delta or sum has another shape");
    need(walkable(x.gain) && tensor_elements(&x.gain) == n, &o, "gain is not one row");
    need(plain(x.rstd, F32) && tensor_elements(&x.rstd) == m, &o, "rstd is not one F32 per row");
    return op_submit(q, &o);
}

mark norm_backward(queue *q, const char *name, norm_backward_operands x)
{
    op o = named(q, OP_NORM_BACKWARD, name);
    int64_t m = rows(x.x), n = columns(x.x);
    use(&o, x.d_out, READ);
    use(&o, x.x, READ);
    use(&o, x.rstd, READ);
    use(&o, x.gain, READ);
    use(&o, x.dx, x.dx_access);
    use(&o, x.gain_gradient, x.gain_access);
    need(walkable(x.x) && walkable(x.d_out) && rows_by(x.d_out, m, n) && walkable(x.dx) && rows_by(x.dx, m, n), &o,
         "x, d_out and dx differ in shape");
    need(walkable(x.gain) && tensor_elements(&x.gain) == n, &o, "gain is not one row");
    need(plain(x.gain_gradient, F32) && tensor_elements(&x.gain_gradient) == n, &o, "gain_gradient is not one F32 row");
    need(plain(x.rstd, F32) && tensor_elements(&x.rstd) == m, &o, "rstd is not one F32 per row");
    return op_submit(q, &o);
}

static mark rope(queue *q, op_kind kind, const char *name, tensor x, tensor table)
{
    op o = named(q, kind, name);
    use(&o, x, UPDATE);
    use(&o, table, READ);
    need(x.dims == 4 && walkable(x) && x.dim[3] % 2 == 0 && x.dim[3] <= LARGEST_HEAD_DIM, &o,
         "x is not [s, b, heads, even d up to 256]");
    need(plain(table, F32) && table.dim[0] == x.dim[0] && tensor_elements(&table) == x.dim[0] * x.dim[3], &o,
         "table is not [s, d/2, 2] F32");
    return op_submit(q, &o);
}

mark rope_forward(queue *q, const char *name, tensor x, tensor table)
{
    return rope(q, OP_ROPE_FORWARD, name, x, table);
}
mark rope_backward(queue *q, const char *name, tensor x, tensor table)
{
    return rope(q, OP_ROPE_BACKWARD, name, x, table);
}

/* Statistics of the softmax: [b, heads, s] F32, each row of positions without gaps. */
static bool is_lse(tensor t, tensor q)
{
    return t.type == F32 && t.dims == 3 && walkable(t) && t.dim[0] == q.dim[1] && t.dim[1] == q.dim[2] &&
           t.dim[2] == q.dim[0];
}

static void need_attention(const op *o, tensor q, tensor k, tensor v, tensor out, tensor lse)
{
    need(q.dims == 4 && k.dims == 4 && walkable(q) && walkable(k) && walkable(v) && walkable(out), o,
         "q, k, v and out are not [s, b, heads, d]");
    need(same_shape(k, v) && same_shape(q, out), o, "k and v, or q and out, differ in shape");
    need(q.dim[1] == k.dim[1] && q.dim[3] == k.dim[3], o, "queries and keys do not belong together");
    need(!o->args.attention.causal || q.dim[0] == k.dim[0], o, "causal attention of other positions than the keys'");
    need(k.dim[2] > 0 && q.dim[2] % k.dim[2] == 0, o, "heads are no multiple of kv_heads");
    need(q.dim[3] % 2 == 0 && q.dim[3] <= LARGEST_HEAD_DIM, o, "head dim is odd or above 256");
    need(is_lse(lse, q), o, "lse is not [b, heads, s] F32");
}

mark attention_forward(queue *q, const char *name, attention_forward_operands x, attention_args args)
{
    op o = named(q, OP_ATTENTION_FORWARD, name);
    o.args.attention = args;
    use(&o, x.q, READ);
    use(&o, x.k, READ);
    use(&o, x.v, READ);
    use(&o, x.out, WRITE);
    use(&o, x.lse, WRITE);
    need_attention(&o, x.q, x.k, x.v, x.out, x.lse);
    return op_submit(q, &o);
}

static bool is_sum_of(tensor d, access_mode how, tensor x)
{
    return same_shape(d, x) && walkable(d) && (how == WRITE || d.type == F32);
}

mark attention_backward(queue *q, const char *name, attention_backward_operands x, attention_args args)
{
    op o = named(q, OP_ATTENTION_BACKWARD, name);
    o.args.attention = args;
    use(&o, x.q, READ);
    use(&o, x.k, READ);
    use(&o, x.v, READ);
    use(&o, x.out, READ);
    use(&o, x.lse, READ);
    use(&o, x.d_out, READ);
    use(&o, x.dq, x.dq_access);
    use(&o, x.dk, x.dkv_access);
    use(&o, x.dv, x.dkv_access);
    need_attention(&o, x.q, x.k, x.v, x.out, x.lse);
    need(same_shape(x.d_out, x.q) && walkable(x.d_out), &o, "the gradient of out has another shape");
    need(is_sum_of(x.dq, x.dq_access, x.q) && is_sum_of(x.dk, x.dkv_access, x.k) && is_sum_of(x.dv, x.dkv_access, x.v),
         &o, "a gradient has another shape, gaps in its heads, or is added to in another format than F32");
    return op_submit(q, &o);
}

mark attention_merge(queue *q, const char *name, tensor out, tensor lse, tensor part, tensor part_lse)
{
    op o = named(q, OP_ATTENTION_MERGE, name);
    use(&o, out, UPDATE);
    use(&o, lse, UPDATE);
    use(&o, part, READ);
    use(&o, part_lse, READ);
    need(out.dims == 4 && out.type == F32 && part.type == F32 && walkable(out) && walkable(part) &&
             same_shape(out, part),
         &o, "the outputs are not [s, b, heads, d] F32");
    need(is_lse(lse, out) && is_lse(part_lse, out), &o, "the statistics are not [b, heads, s] F32");
    return op_submit(q, &o);
}

mark add(queue *q, const char *name, tensor out, tensor a, tensor b)
{
    op o = named(q, OP_ADD, name);
    use(&o, out, WRITE);
    use(&o, a, READ);
    use(&o, b, READ);
    need(same_shape(a, b) && same_shape(a, out) && plain(a, out.type) && plain(b, out.type) && plain(out, out.type) &&
             is_float(out),
         &o, "sum of tensors that differ in shape or format");
    return op_submit(q, &o);
}

mark swiglu_forward(queue *q, const char *name, tensor gate_up, tensor out)
{
    op o = named(q, OP_SWIGLU_FORWARD, name);
    use(&o, gate_up, READ);
    use(&o, out, WRITE);
    need(walkable(gate_up) && walkable(out) && rows_by(gate_up, rows(out), 2 * columns(out)), &o,
         "gate_up is not [rows, 2f] for out [rows, f]");
    return op_submit(q, &o);
}

mark swiglu_backward(queue *q, const char *name, tensor gate_up, tensor d_out, tensor d_gate_up)
{
    op o = named(q, OP_SWIGLU_BACKWARD, name);
    use(&o, gate_up, READ);
    use(&o, d_out, READ);
    use(&o, d_gate_up, WRITE);
    need(walkable(gate_up) && walkable(d_out) && walkable(d_gate_up), &o, "a row has gaps");
    need(rows_by(gate_up, rows(d_out), 2 * columns(d_out)) && rows_by(d_gate_up, rows(d_out), 2 * columns(d_out)), &o,
         "gate_up is not [rows, 2f] for out [rows, f]");
    return op_submit(q, &o);
}

mark embedding_forward(queue *q, const char *name, tensor tokens, tensor table, tensor out, int64_t first)
{
    op o = named(q, OP_EMBEDDING_FORWARD, name);
    o.args.vocabulary.first = first;
    use(&o, tokens, READ);
    use(&o, table, READ);
    use(&o, out, WRITE);
    need(plain(tokens, I32) && walkable(table) && table.dims == 2 && walkable(out), &o,
         "tokens, table or out has a wrong format");
    need(rows_by(out, tensor_elements(&tokens), columns(table)), &o, "out is not one table row per token");
    return op_submit(q, &o);
}

mark embedding_backward(queue *q, const char *name, tensor tokens, tensor d_out, tensor gradient,
                        access_mode gradient_access, int64_t first)
{
    op o = named(q, OP_EMBEDDING_BACKWARD, name);
    o.args.vocabulary.first = first;
    use(&o, tokens, READ);
    use(&o, d_out, READ);
    use(&o, gradient, gradient_access);
    need(plain(tokens, I32) && walkable(gradient) && gradient.dims == 2 && walkable(d_out), &o,
         "tokens, gradient or d_out has a wrong format");
    need(rows_by(d_out, tensor_elements(&tokens), columns(gradient)), &o, "d_out is not one table row per token");
    return op_submit(q, &o);
}

static mark cross_entropy(queue *q, const char *name, const cross_entropy_operands *x, cross_entropy_part part)
{
    op o = named(q, OP_CROSS_ENTROPY, name);
    bool finish = part == CROSS_ENTROPY_FINISH;
    int64_t tokens = tensor_elements(&x->labels);
    o.args.cross_entropy = (cross_entropy_args){ part, x->first, x->valid, x->gradient_scale };
    use(&o, x->logits, finish ? UPDATE : READ);
    use(&o, x->labels, READ);
    use(&o, x->partial, finish ? READ : WRITE);
    use(&o, finish ? x->loss : tensor_none(), WRITE);
    need(walkable(x->logits) && rows(x->logits) == tokens && plain(x->labels, I32), &o,
         "logits are not one row per label");
    need(plain(x->partial, F32) && tokens > 0 && tensor_elements(&x->partial) % (3 * tokens) == 0, &o,
         "partial is not [.., s, b, 3] F32");
    need(finish || tensor_elements(&x->partial) == 3 * tokens, &o, "partial is not of this rank alone");
    need(!finish || (x->loss.type == F64 && x->loss.dims == 1 && tokens % x->loss.dim[0] == 0), &o,
         "loss is not [b] F64");
    return op_submit(q, &o);
}

mark cross_entropy_partial(queue *q, const char *name, const cross_entropy_operands *x)
{
    return cross_entropy(q, name, x, CROSS_ENTROPY_PARTIAL);
}

mark cross_entropy_finish(queue *q, const char *name, const cross_entropy_operands *x)
{
    return cross_entropy(q, name, x, CROSS_ENTROPY_FINISH);
}
