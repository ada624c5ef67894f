/* Fillers of operations around the network: optimizer, initial values, tokens, scalars of a step, copies and sums. */
#include "machine/op/filler.h"
#include "machine/op/kernels.h"

static void need_scalars(op *o, tensor scalars)
{
    need(is_dense(scalars, F64) && tensor_elements(&scalars) == STEP_SCALARS, o, "these are not the step's scalars");
}

op adamw_op(const adamw_operands *x, adamw_rule rule)
{
    bool has_master = tensor_present(&x->master);
    bool fp8 = is_fp8(x->weight);
    const tensor part[] = { x->gradient, x->weight, x->first, x->second, has_master ? x->master : x->weight };
    op o = op_made(OP_ADAMW,
                   (tensor[]){ x->scalars, x->gradient, x->weight, x->master, x->first, x->second,
                               fp8_scale_tensor(x->weight), x->amax, x->counts },
                   (access_mode[]){ has_master ? WRITE : UPDATE });
    o.args.adamw = rule;
    need_scalars(&o, x->scalars);
    need(!fp8 || (has_master && x->weight.scale), &o, "a weight of FP8 values has no master or no scale");
    for (int i = 0; i < 5; i++)
        need((is_float(part[i]) || (i == 1 && fp8)) && tensor_contiguous(&part[i]) && same_count(part[i], x->weight),
             &o, "parts of the bucket differ");
    need(!tensor_present(&x->amax) || (is_dense(x->amax, I32) && tensor_elements(&x->amax) == 1), &o,
         "amax is not one number");
    need(!tensor_present(&x->counts) || (fp8 && is_dense(x->counts, U64) && tensor_elements(&x->counts) == FP8_COUNTS),
         &o, "counts have the wrong type or size");
    return o;
}

op initialize_op(tensor out, const initialize_args *args)
{
    op o = op_made(OP_INITIALIZE, (tensor[]){ out }, NULL);
    o.args.initialize = *args;
    need(walkable(out) && out.dims == 2, &o, "out is not a matrix");
    return o;
}

op digest_op(tensor x, tensor sum, const digest_args *args)
{
    op o = op_made(OP_DIGEST, (tensor[]){ x, sum }, NULL);
    o.args.digest = *args;
    need(tensor_contiguous(&x), &o, "digest of a tensor with gaps");
    need(is_dense(sum, U64) && tensor_elements(&sum) == 1, &o, "the sum of a digest is not one U64");
    return o;
}

op signed_sums_op(tensor x, tensor scalars, tensor totals, const signed_sums_args *args)
{
    op o = op_made(OP_SIGNED_SUMS, (tensor[]){ x, scalars, totals }, NULL);
    o.args.signed_sums = *args;
    need_scalars(&o, scalars);
    need(is_float(x) && tensor_contiguous(&x), &o, "x is not of F32 or BF16, or has gaps");
    need(args->owners > 0 && tensor_elements(&x) % ((int64_t)args->owners * SIGN_RUN) == 0 &&
             args->place % SIGN_RUN == 0,
         &o, "the parts are not made of whole runs of signs");
    need(is_dense(totals, F64) && tensor_elements(&totals) == SUM_SLICES * SLICE_TOTALS, &o,
         "totals are not two F64 a slice");
    return o;
}

op fill_op(tensor out, double value)
{
    op o = op_made(OP_FILL, (tensor[]){ out }, NULL);
    o.args.fill.value = value;
    need(tensor_contiguous(&out), &o, "fill of a tensor with gaps");
    return o;
}

op copy_op(tensor to, access_mode to_access, tensor from)
{
    bool gapless = tensor_contiguous(&to) && tensor_contiguous(&from) && same_count(to, from);
    op o = op_made(OP_COPY, (tensor[]){ to, from }, (access_mode[]){ to_access });
    need(gapless || (same_shape(to, from) && walkable(to) && walkable(from)), &o, "copy between different shapes");
    return o;
}

op sum_op(tensor out, access_mode out_access, tensor x)
{
    op o = op_made(OP_SUM, (tensor[]){ out, x }, (access_mode[]){ out_access });
    need(is_dense(out, F64) && is_dense(x, F64) && tensor_elements(&out) == 1, &o, "sum is of F64 into one F64");
    return o;
}

op sum_parts_op(tensor out, tensor parts)
{
    int64_t elements = tensor_elements(&out), count = elements ? tensor_elements(&parts) / elements : 1;
    tensor by_part = tensor_3d(parts.data, parts.type, count, rows(out), columns(out));
    op o = op_made(OP_SUM_PARTS, (tensor[]){ out, by_part }, NULL);
    need(walkable(out), &o, "a row of out has gaps");
    need(is_float(parts) && tensor_contiguous(&parts) && same_count(parts, by_part), &o,
         "the parts are not as large as out, or have gaps");
    return o;
}

op tokens_op(tensor scalars, tensor tokens, tensor labels, const tokens_args *args)
{
    op o = op_made(OP_TOKENS, (tensor[]){ scalars, tokens, labels }, NULL);
    o.args.tokens = *args;
    need_scalars(&o, scalars);
    need(is_dense(tokens, I32) && is_dense(labels, I32) && tokens.dims == 2 && same_shape(tokens, labels), &o,
         "tokens and labels are not [s, b] I32");
    return o;
}

op step_begin_op(tensor scalars, const step_begin_args *args)
{
    op o = op_made(OP_STEP_BEGIN, (tensor[]){ scalars }, NULL);
    o.args.step_begin = *args;
    need_scalars(&o, scalars);
    return o;
}

static bool is_exact_sum(tensor t) { return is_dense(t, U64) && tensor_elements(&t) == EXACT_SUM_WORDS; }

op square_sum_op(tensor x, tensor squares)
{
    op o = op_made(OP_SQUARE_SUM, (tensor[]){ x, squares }, NULL);
    need(is_float(x) && tensor_contiguous(&x) && is_exact_sum(squares), &o,
         "squares of F32 or BF16 go into an exact sum");
    return o;
}

op step_clip_op(tensor squares, tensor loss, tensor scalars, const step_clip_args *args)
{
    op o = op_made(OP_STEP_CLIP, (tensor[]){ squares, loss, scalars }, NULL);
    o.args.step_clip = *args;
    need_scalars(&o, scalars);
    need(is_exact_sum(squares) && is_dense(loss, F64) && tensor_elements(&loss) == 1, &o,
         "exact sum or loss has a wrong format");
    return o;
}
