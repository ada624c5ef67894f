/* Fillers of what surrounds the network: optimizer, first values, tokens, the step's scalars, copies and sums. Operands
 * stand in the order in which kernels.h names them; an absent one keeps its place. */
#include "machine/filler.h"

static void need_scalars(const op *o, tensor scalars)
{
    need(plain(scalars, F64) && tensor_elements(&scalars) == STEP_SCALARS, o, "these are not the step's scalars");
}

mark adamw(queue *q, const char *name, const adamw_operands *x, adamw_rule rule)
{
    op o = named(q, OP_ADAMW, name);
    bool has_master = tensor_present(&x->master);
    const tensor part[] = { x->gradient, x->weight, x->first, x->second, has_master ? x->master : x->weight };
    o.args.adamw = rule;
    use(&o, x->scalars, READ);
    use(&o, x->gradient, READ);
    use(&o, x->weight, has_master ? WRITE : UPDATE);
    use(&o, x->master, UPDATE);
    use(&o, x->first, UPDATE);
    use(&o, x->second, UPDATE);
    need_scalars(&o, x->scalars);
    for (int i = 0; i < 5; i++)
        need(is_float(part[i]) && tensor_contiguous(&part[i]) && same_elements(part[i], x->weight), &o,
             "parts of the bucket differ");
    return op_submit(q, &o);
}

mark initialize(queue *q, const char *name, tensor out, const initialize_args *args)
{
    op o = named(q, OP_INITIALIZE, name);
    o.args.initialize = *args;
    use(&o, out, WRITE);
    need(walkable(out) && out.dims == 2, &o, "out is not a matrix");
    return op_submit(q, &o);
}

mark fill(queue *q, const char *name, tensor out, double value)
{
    op o = named(q, OP_FILL, name);
    o.args.fill.value = value;
    use(&o, out, WRITE);
    need(tensor_contiguous(&out), &o, "fill of a tensor with gaps");
    return op_submit(q, &o);
}

mark copy(queue *q, const char *name, tensor to, access_mode to_access, tensor from)
{
    op o = named(q, OP_COPY, name);
    use(&o, to, to_access);
    use(&o, from, READ);
    bool dense = tensor_contiguous(&to) && tensor_contiguous(&from) && same_elements(to, from);
    need(dense || (same_shape(to, from) && walkable(to) && walkable(from)), &o, "copy between different shapes");
    return op_submit(q, &o);
}

mark sum(queue *q, const char *name, tensor out, access_mode out_access, tensor x)
{
    op o = named(q, OP_SUM, name);
    use(&o, out, out_access);
    use(&o, x, READ);
    need(plain(out, F64) && plain(x, F64) && tensor_elements(&out) == 1, &o, "sum is of F64 into one F64");
    return op_submit(q, &o);
}

mark tokens(queue *q, const char *name, tensor scalars, tensor tokens, tensor labels, const tokens_args *args)
{
    op o = named(q, OP_TOKENS, name);
    o.args.tokens = *args;
    use(&o, scalars, READ);
    use(&o, tokens, WRITE);
    use(&o, labels, WRITE);
    need_scalars(&o, scalars);
    need(plain(tokens, I32) && plain(labels, I32) && tokens.dims == 2 && same_shape(tokens, labels), &o,
         "tokens and labels are not [s, b] I32");
    return op_submit(q, &o);
}

mark step_begin(queue *q, const char *name, tensor scalars, const step_begin_args *args)
{
    op o = named(q, OP_STEP_BEGIN, name);
    o.args.step_begin = *args;
    use(&o, scalars, UPDATE);
    need_scalars(&o, scalars);
    return op_submit(q, &o);
}

static bool is_exact_sum(tensor t) { return plain(t, U64) && tensor_elements(&t) == EXACT_SUM_WORDS; }

mark square_sum(queue *q, const char *name, tensor x, tensor squares)
{
    op o = named(q, OP_SQUARE_SUM, name);
    use(&o, x, READ);
    use(&o, squares, UPDATE);
    need(is_float(x) && tensor_contiguous(&x) && is_exact_sum(squares), &o,
         "squares of F32 or BF16 go into an exact sum");
    return op_submit(q, &o);
}

mark step_clip(queue *q, const char *name, tensor squares, tensor loss, tensor scalars, const step_clip_args *args)
{
    op o = named(q, OP_STEP_CLIP, name);
    o.args.step_clip = *args;
    use(&o, squares, READ);
    use(&o, loss, READ);
    use(&o, scalars, UPDATE);
    need_scalars(&o, scalars);
    need(is_exact_sum(squares) && plain(loss, F64) && tensor_elements(&loss) == 1, &o,
         "exact sum or loss has a wrong format");
    return op_submit(q, &o);
}
