/* Activations between the products of an MLP. */
#include "machine/submit.h"
#include "model/step_call.h"

tensor ffn_shape(const rank_extents *n) { return tensor_3d(NULL, n->type, n->positions, n->rows, n->ffn); }
tensor gate_up_shape(const rank_extents *n) { return tensor_3d(NULL, n->type, n->positions, n->rows, 2 * n->ffn); }

static void swiglu_forward(step_call *c)
{
    submit(c->work->queues.compute, c->step->name,
           swiglu_forward_op(tensor_rows(step_read(c, 0)), tensor_rows(step_made(c, 0))));
}

static void swiglu_backward(step_call *c)
{
    submit(c->work->queues.compute, c->step->backward_name,
           swiglu_backward_op(tensor_rows(step_read(c, 0)), tensor_rows(step_d_made(c, 0)),
                              tensor_rows(step_d_read(c, 0))));
}

const step_kind swiglu = { .forward = swiglu_forward, .backward = swiglu_backward, .saves_reads = 1u };

static void gelu_forward(step_call *c)
{
    submit(c->work->queues.compute, c->step->name,
           gelu_forward_op(tensor_rows(step_read(c, 0)), step_borrow(c, c->step->bias, USE_FORWARD),
                           tensor_rows(step_made(c, 0))));
    step_return(c, c->step->bias, USE_FORWARD);
}

static void gelu_backward(step_call *c)
{
    queue *q = c->work->queues.compute;
    contribution bias = step_contribute(c, c->step->bias);
    submit(q, c->step->backward_name,
           gelu_backward_op((gelu_backward_operands){ .x = tensor_rows(step_read(c, 0)),
                                                      .bias = step_borrow(c, c->step->bias, USE_BACKWARD),
                                                      .d_out = tensor_rows(step_d_made(c, 0)),
                                                      .dx = tensor_rows(step_d_read(c, 0)),
                                                      .bias_gradient = bias.gradient,
                                                      .bias_access = bias.access }));
    step_return(c, c->step->bias, USE_BACKWARD);
    step_contributed(c, c->step->bias, q);
}

const step_kind biased_gelu = { .forward = gelu_forward, .backward = gelu_backward, .saves_reads = 1u };
