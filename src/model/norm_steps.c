/* Norms of the residual stream. */
#include "machine/submit.h"
#include "model/step_call.h"

tensor residual_shape(const rank_extents *n) { return tensor_3d(NULL, n->type, n->part, n->rows, n->hidden); }
tensor row_statistics_shape(const rank_extents *n) { return tensor_1d(NULL, F32, n->part * n->rows); }

static residual incoming(const step_call *c)
{
    if (c->step->reads[0] == SLOT_NONE) return c->in;
    return (residual){ step_read(c, 0), step_read(c, 1) };
}

static void forward(step_call *c)
{
    residual in = incoming(c);
    bool adds = tensor_present(&in.delta);
    submit(c->work->queues.compute, c->step->name,
           norm_forward_op((norm_forward_operands){ .x = tensor_rows(in.x),
                                                    .delta = adds ? tensor_rows(in.delta) : tensor_none(),
                                                    .gain = step_borrow(c, USE_FORWARD),
                                                    .sum = adds ? tensor_rows(step_made(c, NORM_SUM)) : tensor_none(),
                                                    .out = tensor_rows(step_made(c, NORM_OUT)),
                                                    .rstd = step_made(c, NORM_STATISTICS) },
                           (float)c->work->given->model.norm_epsilon));
    step_return(c, USE_FORWARD);
}

static void backward(step_call *c)
{
    param_table *t = c->work->params;
    int row = step_row(c);
    access_mode how = param_contribute(t, row, 1, c->work->queues.compute);
    submit(c->work->queues.compute, c->step->backward_name,
           norm_backward_op((norm_backward_operands){ .d_out = tensor_rows(step_d_made(c, NORM_OUT)),
                                                      .x = tensor_rows(step_made(c, NORM_SUM)),
                                                      .rstd = step_made(c, NORM_STATISTICS),
                                                      .gain = step_borrow(c, USE_BACKWARD),
                                                      .dx = tensor_rows(step_d_made(c, NORM_SUM)),
                                                      .gain_gradient = param_gradient(t, row, 1),
                                                      .dx_access = c->dx_access,
                                                      .gain_access = how }));
    step_return(c, USE_BACKWARD);
    param_contributed(t, row, 1, c->work->queues.compute);
}

const step_kind rms_norm = { .forward = forward,
                             .backward = backward,
                             .saves_makes = 1u << NORM_SUM | 1u << NORM_STATISTICS };
