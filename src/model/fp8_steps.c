/* FP8 values for products, made after the step that makes the values, and transposed. */
#include "machine/queue/submit.h"
#include "model/step_call.h"

/* Returns NULL if product s neither multiplies FP8 values nor needs amaxes. */
static const fp8_product *product_of(const step_call *c, const layer_step *s)
{
    const fp8_state *f = &c->work->fp8;
    const fp8_product *p = f->product;
    if (c->layer == NO_LAYER) return NULL;
    while (p < f->product + f->products && p->step != s) p++;
    return p < f->product + f->products ? p : NULL;
}

static const fp8_product *product_reading(const step_call *c, int slot)
{
    const fp8_state *f = &c->work->fp8;
    for (const fp8_product *p = f->product; p < f->product + f->products; p++)
        if (p->step->reads[0] == slot) return p;
    return NULL;
}

static bool encodes(const step_call *c) { return c->work->fp8.mode == FP8_ENCODES; }

static int64_t number_of(const step_call *c, const fp8_product *p, fp8_kind kind)
{
    return fp8_number(c->layer, p - c->work->fp8.product, kind);
}

static bool scales_current(const step_call *c) { return tensor_present(&c->work->fp8.current_amax); }

/* Delayed scales are known before the values, so the operation that makes the values also rounds them. */
static bool fuses_encoding(const step_call *c) { return encodes(c) && !scales_current(c); }

/* A weight has one scale for all microbatches. */
static tensor scale_of(const step_call *c, const fp8_product *p, fp8_kind kind)
{
    const fp8_state *f = &c->work->fp8;
    bool per_microbatch = scales_current(c) && kind != FP8_WEIGHT;
    int64_t place = c->part * f->in_flight + (per_microbatch ? c->work->microbatch % f->in_flight : 0);
    return tensor_slice(f->scales, 0, place * tensor_elements(&f->amax) + number_of(c, p, kind), 1);
}

/* Returns the current part of rows, or of groups of rows. */
static tensor part_of(const step_call *c, const fp8_product *p, tensor x)
{
    int64_t n = tensor_present(&x) ? x.dim[0] / p->parts : 0;
    return n ? tensor_slice(x, 0, c->part * n, n) : x;
}

/* Returns FP8 values with the scale of their tensor; of inputs and gradients, the current part. */
static tensor scaled_part(const step_call *c, const fp8_product *p, fp8_kind kind, tensor fp8)
{
    if (kind != FP8_WEIGHT) fp8 = part_of(c, p, fp8);
    fp8.scale = scale_of(c, p, kind).data;
    return fp8;
}

/* Returns FP8 values, which have no gaps, in the shape of `values`. */
static tensor in_shape_of(tensor values, tensor fp8)
{
    values.data = fp8.data;
    values.type = fp8.type;
    values.scale = fp8.scale;
    return values;
}

/* Values that are computed again must not count twice in amaxes and counts. */
static encoding encoding_of(const step_call *c, const fp8_product *p, fp8_kind kind, tensor fp8, tensor transposed)
{
    const fp8_state *f = &c->work->fp8;
    int64_t number = number_of(c, p, kind);
    encoding e = { .codes = tensor_none() };
    if (!c->again) e.amax = tensor_slice(f->amax, 0, number, 1);
    if (!encodes(c)) return e;
    if (!c->again) e.counts = tensor_flat(tensor_slice(f->counts, 0, number, 1));
    if (tensor_present(&fp8)) e.codes = scaled_part(c, p, kind, fp8);
    if (tensor_present(&transposed)) e.transposed = scaled_part(c, p, kind, transposed);
    return e;
}

static void encode(const step_call *c, const char *name, tensor x, encoding to)
{
    if (encodes(c) || !c->again) submit(c->work->queues.compute, name, quantize_op(tensor_rows(x), to));
}

/* With current scaling, makes the scale of x, unless x is computed again. The run gives the scales of parts. */
static void scale(const step_call *c, const fp8_product *p, fp8_kind kind, const char *name, tensor x)
{
    const workspace *w = c->work;
    tensor amax = w->fp8.current_amax, to = scale_of(c, p, kind);
    if (!scales_current(c) || c->again || p->parts > 1) return;
    workspace_await(w, w->queues.compute, to);
    submit(w->queues.compute, name, quantize_op(tensor_rows(x), (encoding){ .codes = tensor_none(), .amax = amax }));
    queues_all_reduce(&w->queues, w->queues.tensor, name, w->tensor.ranks, amax);
    queues_all_reduce(&w->queues, w->queues.context, name, w->context[0], amax);
    submit(w->queues.compute, name,
           fp8_scales_op((fp8_scales_operands){ .amax = amax, .scales = to },
                         (fp8_scales_args){ .exact = w->given->fp8_scale == FP8_EXACT, .first = kind }));
}

/* ---- inputs ---- */

void fp8_await_made(step_call *c)
{
    workspace *w = c->work;
    for (int i = 0; encodes(c) && c->layer != NO_LAYER && c->step->makes[i] != SLOT_NONE; i++)
        if (product_reading(c, c->step->makes[i]))
            workspace_await(w, w->queues.compute, c->slot[slot_fp8(c->step->makes[i])]);
}

/* Returns the encoding of what the step makes at a place; absent if no product reads it. */
static encoding made_encoding(const step_call *c, int place)
{
    const fp8_product *p = c->layer == NO_LAYER ? NULL : product_reading(c, c->step->makes[place]);
    if (!p) return (encoding){ .codes = tensor_none() };
    tensor kept = encodes(c) ? c->slot[slot_fp8(c->step->makes[place])] : tensor_none();
    return encoding_of(c, p, FP8_INPUT, p->keeps_rows ? kept : p->input, p->keeps_rows ? tensor_none() : kept);
}

encoding fp8_made_encoding(const step_call *c, int place)
{
    return fuses_encoding(c) ? made_encoding(c, place) : (encoding){ .codes = tensor_none() };
}

void fp8_encode_made(step_call *c)
{
    for (int i = 0; c->layer != NO_LAYER && c->step->makes[i] != SLOT_NONE; i++) {
        const fp8_product *p = product_reading(c, c->step->makes[i]);
        if (!p || (fuses_encoding(c) && c->step->kind->encodes)) continue;
        for (c->part = 0; c->part < p->parts; c->part++) {
            tensor x = part_of(c, p, step_made(c, i));
            scale(c, p, FP8_INPUT, p->step->name, x);
            encode(c, p->step->name, x, made_encoding(c, i));
        }
        c->part = 0;
    }
}

tensor fp8_input(const step_call *c, const layer_step *s)
{
    const fp8_product *p = encodes(c) ? product_of(c, s) : NULL;
    tensor x = c->slot[s->reads[0]];
    if (!p) return x;
    return in_shape_of(part_of(c, p, x),
                       scaled_part(c, p, FP8_INPUT, p->keeps_rows ? c->slot[slot_fp8(s->reads[0])] : p->input));
}

tensor fp8_gathered(tensor part, tensor whole)
{
    whole.type = part.type;
    whole.scale = part.scale;
    return whole;
}

/* ---- gradients of outputs ---- */

tensor fp8_gradient(const step_call *c, tensor dy)
{
    const fp8_product *p = encodes(c) ? product_of(c, c->step) : NULL;
    return p ? in_shape_of(dy, scaled_part(c, p, FP8_GRADIENT, p->gradient)) : dy;
}

/* Returns whether the backward of a step that reads the product's output makes the FP8 values of its gradient. */
static bool encoded_by_reader(const step_call *c, const fp8_product *p)
{
    const step_list *l = &c->work->family->layer;
    bool encoded = false;
    for (const layer_step *s = p->step + 1; fuses_encoding(c) && s < l->step + l->count; s++)
        for (int i = 0; s->kind->encodes && s->reads[i] != SLOT_NONE; i++) encoded |= s->reads[i] == p->step->makes[0];
    return encoded;
}

static encoding gradient_encoding(step_call *c, const fp8_product *p)
{
    workspace *w = c->work;
    bool whole = p->output_rows == p->gathered_rows;
    if (encodes(c) && whole) workspace_await(w, w->queues.compute, p->gradient_transposed);
    return encoding_of(c, p, FP8_GRADIENT, p->gradient, whole ? p->gradient_transposed : tensor_none());
}

void fp8_encode_gradient(step_call *c, tensor dy)
{
    const fp8_product *p = product_of(c, c->step);
    if (!p || encoded_by_reader(c, p)) return;
    scale(c, p, FP8_GRADIENT, c->step->backward_name, dy);
    encode(c, c->step->backward_name, dy, gradient_encoding(c, p));
}

encoding fp8_read_encoding(step_call *c, int place)
{
    const fp8_state *f = &c->work->fp8;
    for (const fp8_product *p = f->product; fuses_encoding(c) && c->layer != NO_LAYER && p < f->product + f->products;
         p++)
        if (p->step->makes[0] == c->step->reads[place]) return gradient_encoding(c, p);
    return (encoding){ .codes = tensor_none() };
}

/* ---- weights ---- */

static int64_t matrices_of(const fp8_product *p) { return p->groups ? p->groups : 1; }

/* Returns [matrices m, n] as [m, n], or of experts as [matrices, m, n]. */
static tensor by_matrix(const fp8_product *p, tensor stacked)
{
    if (p->groups == 0) return stacked;
    return tensor_3d(stacked.data, stacked.type, p->groups, stacked.dim[0] / p->groups, stacked.dim[1]);
}

/* Makes the FP8 values of W, as rows or transposed, matrix by matrix. Its amax and current scale are made once a
 * step. */
static void encode_weight(const step_call *c, const fp8_product *p, tensor w, tensor to, bool transposes)
{
    int64_t matrices = matrices_of(p), n = w.dim[0] / matrices, m = to.dim[0] / matrices;
    step_call call = *c;
    call.again = c->again || transposes || c->work->microbatch > 0;
    scale(&call, p, FP8_WEIGHT, c->step->name, w);
    for (int64_t i = 0; i < matrices; i++) {
        tensor values = tensor_slice(w, 0, i * n, n), part = tensor_slice(to, 0, i * m, m);
        encode(&call, c->step->name, values,
               encoding_of(&call, p, FP8_WEIGHT, transposes ? tensor_none() : part, transposes ? part : tensor_none()));
    }
}

static void transpose_weight(const step_call *c, const fp8_product *p, tensor w, tensor to)
{
    tensor x = by_matrix(p, w), out = by_matrix(p, to);
    submit(c->work->queues.compute, c->step->backward_name, transpose_op(out, x));
}

/* Returns [matrices k, n]: kept, or made in the buffer. */
static tensor transposed_weight(const step_call *c, const fp8_product *p, tensor w, param_rows rows)
{
    int64_t matrices = matrices_of(p), k = w.dim[1], n = w.dim[0] / matrices;
    tensor kept = weight_transposed(c->work->params, step_row(c, rows), rows.count);
    tensor to = tensor_2d(c->work->fp8.weight.data, E4M3, matrices * k, n);
    if (tensor_present(&kept)) to.data = kept.data;
    else if (w.type == E4M3) transpose_weight(c, p, w, to);
    else encode_weight(c, p, w, to, true);
    return to;
}

tensor fp8_weight(const step_call *c, param_rows rows, weight_use use)
{
    const fp8_product *p = product_of(c, c->step);
    tensor w = step_borrow(c, rows, use);
    if (!p) return w;
    if (!encodes(c)) {
        if (use == USE_FORWARD) encode_weight(c, p, w, w, false);
        return w;
    }
    if (use == USE_BACKWARD)
        return tensor_transposed(scaled_part(c, p, FP8_WEIGHT, by_matrix(p, transposed_weight(c, p, w, rows))));
    tensor to = tensor_2d(c->work->fp8.weight.data, E4M3, w.dim[0], w.dim[1]);
    if (w.type != E4M3) encode_weight(c, p, w, to, false);
    return scaled_part(c, p, FP8_WEIGHT, by_matrix(p, w.type == E4M3 ? w : to));
}

/* ---- what a weight's gradient multiplies ---- */

/* Transposes on the queue of weight gradients, after the gather of the rows. */
static tensor transpose(step_call *c, tensor to, tensor rows, int64_t groups)
{
    workspace *w = c->work;
    tensor x = tensor_rows(rows);
    tensor by_group = { .data = x.data,
                        .type = x.type,
                        .dims = 3,
                        .dim = { groups, groups ? x.dim[0] / groups : 0, x.dim[1] },
                        .stride = { x.dim[1], groups * x.dim[1], 1 },
                        .scale = x.scale };
    to.scale = rows.scale;
    mark done = submit(w->queues.weight, c->step->gradient_name, transpose_op(to, groups ? by_group : x));
    workspace_protect(w, rows, done);
    return to;
}

factors fp8_factors(step_call *c, tensor x, tensor dy, factors values)
{
    const fp8_product *p = encodes(c) ? product_of(c, c->step) : NULL;
    if (!p) return values;
    int slot = slot_fp8(c->step->reads[0]);
    tensor a = p->output_rows == p->gathered_rows ? scaled_part(c, p, FP8_GRADIENT, p->gradient_transposed)
                                                  : transpose(c, part_of(c, p, p->gradient_transposed), dy, p->groups);
    tensor b = p->keeps_rows ? transpose(c, part_of(c, p, p->input_transposed), x, p->groups)
                             : scaled_part(c, p, FP8_INPUT, c->slot[slot]);
    return (factors){ a, tensor_transposed(b) };
}
