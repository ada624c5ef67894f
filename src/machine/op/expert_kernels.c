/* Fillers of the mixture of experts: routing, moving rows to experts and back, products of all experts. */
#include "machine/op/filler.h"
#include "machine/op/kernels.h"

/* Returns whether each matrix of t [g, m, n] has a unit stride. */
static bool unit_matrices(tensor t) { return t.dims == 3 && (t.stride[1] == 1 || t.stride[2] == 1); }

op grouped_matmul_op(tensor c, access_mode c_access, tensor a, tensor b)
{
    op o = op_made(OP_GROUPED_MATMUL, (tensor[]){ c, a, b, fp8_scale_tensor(a), fp8_scale_tensor(b) },
                   (access_mode[]){ c_access });
    need(unit_matrices(a) && unit_matrices(b) && unit_matrices(c), &o, "a matrix has no unit stride");
    need(c.dim[0] == a.dim[0] && c.dim[0] == b.dim[0], &o, "the groups differ in number");
    need(c.dim[1] == a.dim[1] && a.dim[2] == b.dim[1] && b.dim[2] == c.dim[2], &o, "shapes do not multiply");
    need_formats(&o, c, a, b);
    return o;
}

static bool is_choice(tensor t, dtype type, int64_t tokens) { return is_dense(t, type) && rows_by(t, tokens, CHOICES); }
static bool is_statistics(tensor t, int64_t tokens, int64_t experts)
{
    return is_dense(t, F32) && t.dims == 3 && t.dim[1] == ROUTED_STATISTICS && t.dim[2] == experts && t.dim[0] > 0 &&
           tokens % t.dim[0] == 0;
}
static bool is_logits(tensor t) { return is_float(t) && tensor_contiguous(&t) && columns(t) >= CHOICES; }

op router_forward_op(router_forward_operands x, router_args args)
{
    int64_t n = rows(x.logits), experts = columns(x.logits);
    op o = op_made(OP_ROUTER_FORWARD,
                   (tensor[]){ x.logits, x.order, x.choices, x.weights, x.place, x.source, x.statistics },
                   (access_mode[]){ args.given ? READ : WRITE });
    o.args.router = args;
    need(is_logits(x.logits), &o, "logits are not [tokens, experts] without gaps");
    need(args.groups > 0 && n % args.groups == 0 && args.rows % args.groups == 0, &o,
         "tokens or rows are not a multiple of the groups");
    need(args.groups == 1 || tensor_present(&x.order), &o, "the order of tokens in groups is missing");
    need(!tensor_present(&x.order) || (is_dense(x.order, I32) && tensor_elements(&x.order) == n), &o,
         "order is not a number per token");
    need(is_choice(x.choices, I32, n) && is_choice(x.weights, F32, n) && is_choice(x.place, I32, n), &o,
         "choices, weights or place are not two per token");
    need(args.local > 0 && experts % args.local == 0 && is_dense(x.source, I32) &&
             tensor_elements(&x.source) == experts * args.rows,
         &o, "source is not one number per row of the experts");
    need(is_statistics(x.statistics, n, experts), &o, "statistics are not [sequences, 3, experts] F32");
    return o;
}

op router_backward_op(router_backward_operands x, balance_args args)
{
    int64_t n = rows(x.logits), experts = columns(x.logits);
    op o = op_made(OP_ROUTER_BACKWARD,
                   (tensor[]){ x.logits, x.choices, x.d_weights, x.statistics, x.d_logits, x.loss, x.load }, NULL);
    o.args.balance = args;
    need(is_logits(x.logits) && is_logits(x.d_logits) && rows_by(x.d_logits, n, experts), &o,
         "logits and their gradient are not [tokens, experts] without gaps");
    need(is_choice(x.choices, I32, n) && is_choice(x.d_weights, F32, n), &o,
         "choices or d_weights are not two a token");
    need(is_statistics(x.statistics, n, experts), &o, "statistics are not [sequences, 3, experts] F32");
    need(!tensor_present(&x.loss) || (is_dense(x.loss, F64) && tensor_elements(&x.loss) == x.statistics.dim[0]), &o,
         "loss is not one F64 a sequence");
    need(!tensor_present(&x.load) || (is_dense(x.load, F64) && rows_by(x.load, 2, experts)), &o,
         "load is not [2, experts] F64");
    return o;
}

op permute_op(tensor out, tensor x, tensor source)
{
    op o = op_made(OP_PERMUTE, (tensor[]){ out, x, source }, NULL);
    need(walkable(out) && walkable(x) && out.type == x.type && columns(out) == columns(x), &o,
         "rows differ in length or format");
    need(is_dense(source, I32) && tensor_elements(&source) == rows(out), &o, "source is not one number per row");
    return o;
}

op unpermute_forward_op(tensor out, tensor y, tensor weights, tensor place)
{
    op o = op_made(OP_UNPERMUTE_FORWARD, (tensor[]){ out, y, weights, place }, NULL);
    need(walkable(out) && walkable(y) && out.type == y.type && columns(out) == columns(y), &o,
         "rows differ in length or format");
    need(is_choice(place, I32, rows(out)), &o, "place is not two numbers per token");
    need(!tensor_present(&weights) || is_choice(weights, F32, rows(out)), &o, "weights are not two per token");
    return o;
}

op unpermute_backward_op(unpermute_backward_operands x)
{
    int64_t n = rows(x.d_out), h = columns(x.d_out);
    op o = op_made(OP_UNPERMUTE_BACKWARD, (tensor[]){ x.d_out, x.y, x.weights, x.place, x.source, x.d_y, x.d_weights },
                   NULL);
    need(walkable(x.d_out) && walkable(x.y) && walkable(x.d_y) && x.d_out.type == x.y.type && x.y.type == x.d_y.type,
         &o, "d_out, y and d_y differ in format");
    need(columns(x.y) == h && rows_by(x.d_y, rows(x.y), h), &o, "d_out, y and d_y differ in shape");
    need(is_choice(x.weights, F32, n) && is_choice(x.d_weights, F32, n) && is_choice(x.place, I32, n), &o,
         "weights, their gradient or place are not two per token");
    need(is_dense(x.source, I32) && tensor_elements(&x.source) == rows(x.y), &o, "source is not one number per row");
    return o;
}
