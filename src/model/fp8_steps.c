/* Codes of what products multiply: made behind the step that makes the value, and transposed. */
#include "machine/submit.h"
#include "model/step_call.h"

/* NULL: the product multiplies values, and nobody asks for their amax. */
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

/* The codes that lie there, as ones of that tensor. */
static tensor of_kind(const step_call *c, const fp8_product *p, fp8_kind kind, tensor codes)
{
    tensor scale = tensor_slice(c->work->fp8.scales, 0, number_of(c, p, kind), 1);
    codes.scale = scale.data;
    return codes;
}

/* As of_kind, in the shape of what became codes; [.., n] without gaps. */
static tensor like(tensor values, tensor codes)
{
    values.data = codes.data;
    values.type = codes.type;
    values.scale = codes.scale;
    return values;
}

/* What runs again has shown its values before. */
static void encode(const step_call *c, const char *name, const fp8_product *p, fp8_kind kind, tensor x, tensor codes,
                   tensor transposed)
{
    const fp8_state *f = &c->work->fp8;
    int64_t number = number_of(c, p, kind);
    quantize_operands q = { .x = tensor_rows(x) };
    if (!encodes(c) && c->again) return;
    if (!c->again) q.amax = tensor_slice(f->amax, 0, number, 1);
    if (encodes(c)) {
        if (!c->again) q.counts = tensor_flat(tensor_slice(f->counts, 0, number, 1));
        if (tensor_present(&codes)) q.codes = of_kind(c, p, kind, codes);
        if (tensor_present(&transposed)) q.transposed = of_kind(c, p, kind, transposed);
    }
    submit(c->work->queues.compute, name, quantize_op(q));
}

/* ---- inputs ---- */

void fp8_await_made(step_call *c)
{
    workspace *w = c->work;
    for (int i = 0; encodes(c) && c->layer != NO_LAYER && c->step->makes[i] != SLOT_NONE; i++)
        if (product_reading(c, c->step->makes[i]))
            workspace_await(w, w->queues.compute, c->slot[slot_codes(c->step->makes[i])]);
}

void fp8_encode_made(step_call *c)
{
    for (int i = 0; c->layer != NO_LAYER && c->step->makes[i] != SLOT_NONE; i++) {
        const fp8_product *p = product_reading(c, c->step->makes[i]);
        if (!p) continue;
        tensor kept = encodes(c) ? c->slot[slot_codes(c->step->makes[i])] : tensor_none();
        encode(c, p->step->name, p, FP8_INPUT, step_made(c, i), p->by_rows ? kept : p->rows,
               p->by_rows ? tensor_none() : kept);
    }
}

tensor fp8_input(const step_call *c, const layer_step *s)
{
    const fp8_product *p = encodes(c) ? product_of(c, s) : NULL;
    tensor x = c->slot[s->reads[0]];
    if (!p) return x;
    return like(x, of_kind(c, p, FP8_INPUT, p->by_rows ? c->slot[slot_codes(s->reads[0])] : p->rows));
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
    return p ? like(dy, of_kind(c, p, FP8_GRADIENT, p->gradient)) : dy;
}

void fp8_encode_gradient(step_call *c, tensor dy)
{
    workspace *w = c->work;
    const fp8_product *p = product_of(c, c->step);
    if (!p) return;
    bool whole = p->made == p->whole;
    if (encodes(c) && whole) workspace_await(w, w->queues.compute, p->d_transposed);
    encode(c, c->step->backward_name, p, FP8_GRADIENT, dy, p->gradient, whole ? p->d_transposed : tensor_none());
}

/* ---- weights ---- */

static int64_t matrices_of(const fp8_product *p) { return p->groups ? p->groups : 1; }

/* [matrices m, n] as [m, n], or [matrices, m, n] of experts. */
static tensor by_matrix(const fp8_product *p, tensor stacked)
{
    if (p->groups == 0) return stacked;
    return tensor_3d(stacked.data, stacked.type, p->groups, stacked.dim[0] / p->groups, stacked.dim[1]);
}

/* Codes of W, as rows or transposed, matrix by matrix. Its amax is shown once a step. */
static void encode_weight(const step_call *c, const fp8_product *p, tensor w, tensor to, bool transposes)
{
    int64_t matrices = matrices_of(p), n = w.dim[0] / matrices, m = to.dim[0] / matrices;
    step_call shown = *c;
    shown.again = c->again || transposes || c->work->microbatch > 0;
    for (int64_t i = 0; i < matrices; i++) {
        tensor of = tensor_slice(w, 0, i * n, n), part = tensor_slice(to, 0, i * m, m);
        encode(&shown, c->step->name, p, FP8_WEIGHT, of, transposes ? tensor_none() : part,
               transposes ? part : tensor_none());
    }
}

/* Transposed, of a weight that is kept as codes. */
static void transpose_weight(const step_call *c, const fp8_product *p, tensor w, tensor to)
{
    tensor x = by_matrix(p, w), out = by_matrix(p, to);
    submit(c->work->queues.compute, c->step->backward_name, transpose_op(out, x));
}

/* [matrices k, n]: kept, or made in the buffer. */
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
        return tensor_transposed(of_kind(c, p, FP8_WEIGHT, by_matrix(p, transposed_weight(c, p, w, rows))));
    tensor to = tensor_2d(c->work->fp8.weight.data, E4M3, w.dim[0], w.dim[1]);
    if (w.type != E4M3) encode_weight(c, p, w, to, false);
    return of_kind(c, p, FP8_WEIGHT, by_matrix(p, w.type == E4M3 ? w : to));
}

/* ---- what a weight's gradient multiplies ---- */

/* On the queue of weight gradients, behind what gathered the rows. */
static tensor transpose(step_call *c, tensor to, tensor rows, int64_t groups)
{
    workspace *w = c->work;
    tensor x = tensor_rows(rows);
    tensor apart = { .data = x.data,
                     .type = x.type,
                     .dims = 3,
                     .dim = { groups, groups ? x.dim[0] / groups : 0, x.dim[1] },
                     .stride = { x.dim[1], groups * x.dim[1], 1 },
                     .scale = x.scale };
    to.scale = rows.scale;
    mark done = submit(w->queues.weight, c->step->gradient_name, transpose_op(to, groups ? apart : x));
    workspace_lend(w, rows, done);
    return to;
}

factors fp8_factors(step_call *c, tensor x, tensor dy, factors values)
{
    const fp8_product *p = encodes(c) ? product_of(c, c->step) : NULL;
    if (!p) return values;
    int slot = slot_codes(c->step->reads[0]);
    tensor a = p->made == p->whole ? of_kind(c, p, FP8_GRADIENT, p->d_transposed)
                                   : transpose(c, p->d_transposed, dy, p->groups);
    tensor b = p->by_rows ? transpose(c, p->transposed, x, p->groups) : of_kind(c, p, FP8_INPUT, c->slot[slot]);
    return (factors){ a, tensor_transposed(b) };
}
