/* Norms of the residual stream. */
#include "machine/queue/submit.h"
#include "model/step_call.h"

tensor residual_shape(const rank_extents *n) { return tensor_3d(NULL, n->type, n->own_positions, n->batch, n->hidden); }
tensor row_rstd_shape(const rank_extents *n) { return tensor_1d(NULL, F32, n->own_positions * n->batch); }
tensor row_moments_shape(const rank_extents *n) { return tensor_1d(NULL, F32, 2 * n->own_positions * n->batch); }

static residual input_terms(const step_call *c)
{
    if (c->step->reads[0] == SLOT_NONE) return c->in;
    return (residual){ step_read(c, 0), step_read(c, 1) };
}

/* Row statistics: rstd, and the mean if the norm is centred (it has a bias then). */
typedef struct {
    tensor rstd, mean;
} row_statistics;

static row_statistics statistics(const step_call *c)
{
    bool centred = c->step->bias.count > 0;
    int64_t rows = c->work->extents.own_positions * c->work->extents.batch;
    tensor both = step_made(c, NORM_STATISTICS);
    return (row_statistics){ tensor_slice(both, 0, 0, rows),
                             centred ? tensor_slice(both, 0, rows, rows) : tensor_none() };
}

static void forward(step_call *c)
{
    residual in = input_terms(c);
    row_statistics s = statistics(c);
    bool adds = tensor_present(&in.delta);
    submit(c->work->queues.compute, c->step->name,
           encode_op(norm_forward_op(
                         (norm_forward_operands){ .x = tensor_rows(in.x),
                                                  .delta = adds ? tensor_rows(in.delta) : tensor_none(),
                                                  .gain = step_borrow(c, c->step->weight, USE_FORWARD),
                                                  .bias = step_borrow(c, c->step->bias, USE_FORWARD),
                                                  .sum = adds ? tensor_rows(step_made(c, NORM_SUM)) : tensor_none(),
                                                  .out = tensor_rows(step_made(c, NORM_OUT)),
                                                  .rstd = s.rstd,
                                                  .mean = s.mean },
                         (float)c->work->given->model.norm_epsilon),
                     fp8_made_encoding(c, NORM_OUT)));
    step_return(c, c->step->weight, USE_FORWARD);
    step_return(c, c->step->bias, USE_FORWARD);
}

/* Both terms of the sum have its gradient. */
static encoding summed_encoding(step_call *c)
{
    return c->step->reads[0] == SLOT_NONE ? (encoding){ .codes = tensor_none() } : fp8_read_encoding(c, 1);
}

static void backward(step_call *c)
{
    queue *q = c->work->queues.compute;
    row_statistics s = statistics(c);
    contribution gain = step_contribute(c, c->step->weight, q), bias = step_contribute(c, c->step->bias, q);
    submit(q, c->step->backward_name,
           encode_op(norm_backward_op((norm_backward_operands){ .d_out = tensor_rows(step_d_made(c, NORM_OUT)),
                                                                .x = tensor_rows(step_made(c, NORM_SUM)),
                                                                .rstd = s.rstd,
                                                                .mean = s.mean,
                                                                .gain = step_borrow(c, c->step->weight, USE_BACKWARD),
                                                                .dx = tensor_rows(step_d_made(c, NORM_SUM)),
                                                                .gain_gradient = gain.gradient,
                                                                .bias_gradient = bias.gradient,
                                                                .dx_access = c->dx_access,
                                                                .gain_access = gain.access,
                                                                .bias_access = bias.access }),
                     summed_encoding(c)));
    step_return(c, c->step->weight, USE_BACKWARD);
    step_contributed(c, c->step->weight, q);
    step_contributed(c, c->step->bias, q);
}

const step_kind residual_norm = {
    .forward = forward, .backward = backward, .saves_makes = 1u << NORM_SUM | 1u << NORM_STATISTICS, .encodes = true
};
