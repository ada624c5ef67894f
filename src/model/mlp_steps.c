/* Activations between the products of an MLP. */
#include "machine/queue/submit.h"
#include "model/step_call.h"

tensor ffn_shape(const rank_extents *n) { return tensor_3d(NULL, n->type, n->positions, n->batch, n->ffn); }
tensor gate_up_shape(const rank_extents *n) { return tensor_3d(NULL, n->type, n->positions, n->batch, 2 * n->ffn); }

typedef op forward_filler(tensor in, tensor out);
typedef op backward_filler(tensor in, tensor d_out, tensor d_in);

static void forward_by(step_call *c, forward_filler *make)
{
    op o = make(tensor_rows(step_read(c, 0)), tensor_rows(step_made(c, 0)));
    submit(c->work->queues.compute, c->step->name, encode_op(o, fp8_made_encoding(c, 0)));
}

static void backward_by(step_call *c, backward_filler *make)
{
    op o = make(tensor_rows(step_read(c, 0)), tensor_rows(step_d_made(c, 0)), tensor_rows(step_d_read(c, 0)));
    submit(c->work->queues.compute, c->step->backward_name, encode_op(o, fp8_read_encoding(c, 0)));
}

static void forward_swiglu(step_call *c) { forward_by(c, swiglu_forward_op); }
static void backward_swiglu(step_call *c) { backward_by(c, swiglu_backward_op); }
static void forward_geglu(step_call *c) { forward_by(c, geglu_forward_op); }
static void backward_geglu(step_call *c) { backward_by(c, geglu_backward_op); }
static void forward_squared_relu(step_call *c) { forward_by(c, squared_relu_forward_op); }
static void backward_squared_relu(step_call *c) { backward_by(c, squared_relu_backward_op); }

const step_kind swiglu = { .forward = forward_swiglu, .backward = backward_swiglu, .saves_reads = 1u, .encodes = true };
const step_kind geglu = { .forward = forward_geglu, .backward = backward_geglu, .saves_reads = 1u, .encodes = true };
const step_kind squared_relu = {
    .forward = forward_squared_relu, .backward = backward_squared_relu, .saves_reads = 1u, .encodes = true
};

static void forward_gelu(step_call *c)
{
    submit(c->work->queues.compute, c->step->name,
           encode_op(gelu_forward_op(tensor_rows(step_read(c, 0)), step_borrow(c, c->step->bias, USE_FORWARD),
                                     tensor_rows(step_made(c, 0))),
                     fp8_made_encoding(c, 0)));
    step_return(c, c->step->bias, USE_FORWARD);
}

static void backward_gelu(step_call *c)
{
    queue *q = c->work->queues.compute;
    contribution bias = step_contribute(c, c->step->bias, q);
    submit(q, c->step->backward_name,
           encode_op(gelu_backward_op((gelu_backward_operands){ .x = tensor_rows(step_read(c, 0)),
                                                                .bias = step_borrow(c, c->step->bias, USE_BACKWARD),
                                                                .d_out = tensor_rows(step_d_made(c, 0)),
                                                                .dx = tensor_rows(step_d_read(c, 0)),
                                                                .bias_gradient = bias.gradient,
                                                                .bias_access = bias.access }),
                     fp8_read_encoding(c, 0)));
    step_return(c, c->step->bias, USE_BACKWARD);
    step_contributed(c, c->step->bias, q);
}

const step_kind biased_gelu = {
    .forward = forward_gelu, .backward = backward_gelu, .saves_reads = 1u, .encodes = true
};
