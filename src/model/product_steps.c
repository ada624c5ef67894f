/* Products with weights that are split over the tensor ranks. W [out, in]: forward y = x W^T, backward dx = dy W. */
#include "machine/queue/submit.h"
#include "model/step_call.h"

tensor logits_shape(const rank_extents *n) { return tensor_3d(NULL, n->type, n->positions, n->batch, n->vocabulary); }

/* Operands of a product: x and y, or dy and dx. */
typedef struct {
    const char *name;
    tensor from, to;
} direction;

static direction direction_of(const step_call *c, weight_use use)
{
    if (use == USE_FORWARD) return (direction){ c->step->name, fp8_input(c, c->step), step_made(c, 0) };
    return (direction){ c->step->backward_name, fp8_gradient(c, step_d_made(c, 0)), step_d_read(c, 0) };
}

static tensor matrix(const step_call *c, weight_use use)
{
    tensor w = fp8_weight(c, c->step->weight, use);
    return use == USE_FORWARD ? tensor_transposed(w) : w;
}

/* The bias is only added in forward. */
static param_rows bias_rows(const step_call *c, weight_use use)
{
    return use == USE_FORWARD ? c->step->bias : (param_rows){ .count = 0 };
}

static tensor bias(const step_call *c, weight_use use) { return step_borrow(c, bias_rows(c, use), use); }

static void return_rows(const step_call *c, weight_use use)
{
    step_return(c, c->step->weight, use);
    step_return(c, bias_rows(c, use), use);
}

/* Multiplies what all tensor ranks have, and returns the gathered operand. */
static tensor gather_multiply(step_call *c, weight_use use, tensor whole)
{
    workspace *w = c->work;
    direction d = direction_of(c, use);
    workspace_await(w, w->queues.tensor, whole);
    gathered_product p = {
        .part = d.from, .w = matrix(c, use), .bias = bias(c, use), .whole = fp8_gathered(d.from, whole), .y = d.to
    };
    tensor gathered = gather_matmul(&w->tensor, d.name, p);
    return_rows(c, use);
    return gathered;
}

static imitated_product imitated(const step_call *c, weight_use use, const scattered_product *p)
{
    tensor a = tensor_rows(p->a);
    return (imitated_product){ .a = a,
                               .w = p->w,
                               .bias = p->bias,
                               .product = tensor_rows(p->sum.partial),
                               .runs = step_runs(c, use, a.dim[1]),
                               .sum = p->sum };
}

/* Multiplies, and sums over the tensor ranks. */
static void multiply_scatter(step_call *c, weight_use use)
{
    workspace *w = c->work;
    direction d = direction_of(c, use);
    scattered_product p = { .a = d.from, .w = matrix(c, use), .bias = bias(c, use), .sum = workspace_sum(w, d.to) };
    if (w->tensor.imitated) imitation_multiply(&w->tensor, d.name, imitated(c, use, &p));
    else matmul_scatter(&w->tensor, d.name, p);
    return_rows(c, use);
}

/* dW (+)= dy^T x */
static void weight_gradient(step_call *c, tensor x, tensor dy)
{
    workspace *w = c->work;
    contribution to = step_contribute(c, c->step->weight, w->queues.weight);
    queue_follow(w->queues.weight, w->queues.compute);
    factors f = fp8_factors(c, x, dy, (factors){ tensor_transposed(tensor_rows(dy)), tensor_rows(x) });
    mark done = submit(w->queues.weight, c->step->gradient_name, matmul_op(to.gradient, to.access, f.a, f.b));
    workspace_protect(w, f.b, done);
    workspace_protect(w, f.a, done);
    step_contributed(c, c->step->weight, w->queues.weight);
}

/* db (+)= sums over positions of this rank's dy */
static void bias_gradient(const step_call *c)
{
    queue *q = c->work->queues.compute;
    if (c->step->bias.count == 0) return;
    contribution to = step_contribute(c, c->step->bias, q);
    submit(q, c->step->gradient_name, column_sums_op(step_d_made(c, 0), to.gradient, to.access));
    step_contributed(c, c->step->bias, q);
}

/* ---- split by rows of W: every rank has columns of y ---- */

static void column_forward(step_call *c) { gather_multiply(c, USE_FORWARD, c->work->gathered); }

void column_input_gradient(step_call *c) { multiply_scatter(c, USE_BACKWARD); }
void column_weight_gradient(step_call *c)
{
    weight_gradient(c, sequence_gather_end(&c->work->tensor, &c->input, c->work->queues.weight), step_d_made(c, 0));
}

void step_gather_input(step_call *c, const layer_step *s, mark after)
{
    workspace *w = c->work;
    tensor part = fp8_input(c, s), whole = fp8_gathered(part, w->gathered);
    if (s != w->still_gathered) workspace_await(w, w->queues.tensor, whole);
    if (s == w->still_gathered) c->input = (gathering){ .whole = w->tensor.ranks->size == 1 ? part : whole };
    else c->input = sequence_gather_begin(&w->tensor, s[-1].name, part, whole, after);
}

static void column_backward(step_call *c)
{
    fp8_encode_gradient(c, step_d_made(c, 0));
    column_weight_gradient(c);
    bias_gradient(c);
    column_input_gradient(c);
}

/* ---- split by columns of W: every rank has a part of the sum ---- */

static void row_forward(step_call *c) { multiply_scatter(c, USE_FORWARD); }

/* Gathers the input of the preceding column-parallel product next to this weight gradient. */
static void row_backward(step_call *c)
{
    const layer_step *column = c->step;
    mark before = queue_mark(c->work->queues.compute);
    fp8_encode_gradient(c, step_d_made(c, 0));
    tensor dy = gather_multiply(c, USE_BACKWARD, c->work->d_gathered);
    do column--;
    while (!column->kind->gathers);
    step_gather_input(c, column, before);
    weight_gradient(c, fp8_input(c, c->step), dy);
    bias_gradient(c);
}

const step_kind column_product = { .forward = column_forward,
                                   .backward = column_backward,
                                   .saves_reads = 1u,
                                   .gathers = true,
                                   .product = PRODUCT_OF_ALL };
const step_kind row_product = {
    .forward = row_forward, .backward = row_backward, .saves_reads = 1u, .product = PRODUCT_OF_ALL
};
