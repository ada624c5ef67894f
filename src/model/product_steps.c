/* Products with weights that are split over the tensor ranks. W [out, in]: y = x W^T. */
#include "machine/kernels.h"
#include "model/steps.h"

tensor logits_shape(const rank_extents *n) { return tensor_3d(NULL, n->type, n->positions, n->rows, n->vocabulary); }

/* dW (+)= dy^T x */
static void weight_gradient(const step_call *c, tensor x, tensor dy)
{
    param_table *t = c->work->params;
    int row = step_row(c), count = c->step->weight.count;
    access_mode how = param_contribute(t, row, count);
    matmul(c->work->queues.compute, c->step->gradient_name, param_gradient(t, row, count), how,
           tensor_transposed(tensor_rows(dy)), tensor_rows(x));
    param_contributed(t, row, count);
}

/* ---- split by rows of W: every rank has columns of y ---- */

static void column_forward(step_call *c)
{
    workspace *w = c->work;
    gather_matmul(&w->queues, c->step->name, w->tensor,
                  (gathered_product){ .part = step_read(c, 0),
                                      .w = tensor_transposed(step_borrow(c, USE_FORWARD)),
                                      .whole = w->gathered,
                                      .y = step_made(c, 0),
                                      .keeps_whole = c->again && c->step == w->left });
    step_return(c, USE_FORWARD);
}

void column_weight_gradient(step_call *c)
{
    weight_gradient(c, sequence_gather_end(&c->work->queues, c->input), step_d_made(c, 0));
}

void column_input_gradient(step_call *c)
{
    workspace *w = c->work;
    matmul_scatter(&w->queues, c->step->backward_name, w->tensor,
                   (scattered_product){ .a = tensor_rows(step_d_made(c, 0)),
                                        .w = step_borrow(c, USE_BACKWARD),
                                        .partial = w->partial,
                                        .out = step_d_read(c, 0) });
    step_return(c, USE_BACKWARD);
}

static void column_backward(step_call *c)
{
    column_weight_gradient(c);
    column_input_gradient(c);
}

/* ---- split by columns of W: every rank has a part of the sum ---- */

static void row_forward(step_call *c)
{
    workspace *w = c->work;
    matmul_scatter(&w->queues, c->step->name, w->tensor,
                   (scattered_product){ .a = tensor_rows(step_read(c, 0)),
                                        .w = tensor_transposed(step_borrow(c, USE_FORWARD)),
                                        .partial = w->partial,
                                        .out = step_made(c, 0) });
    step_return(c, USE_FORWARD);
}

/* Returns dy from all tensor ranks. */
static tensor row_input_gradient(step_call *c)
{
    workspace *w = c->work;
    tensor dy = gather_matmul(&w->queues, c->step->backward_name, w->tensor,
                              (gathered_product){ .part = step_d_made(c, 0),
                                                  .w = step_borrow(c, USE_BACKWARD),
                                                  .whole = w->d_gathered,
                                                  .y = step_d_read(c, 0),
                                                  .keeps_whole = true });
    step_return(c, USE_BACKWARD);
    return dy;
}

/* What the column-parallel product before it will want is gathered beside its weight gradient. */
static void row_backward(step_call *c)
{
    const layer_step *column = c->step;
    mark before = queue_mark(c->work->queues.compute);
    tensor dy = row_input_gradient(c);
    do column--;
    while (!column->kind->gathers);
    step_gather_input(c, column, before);
    weight_gradient(c, step_read(c, 0), dy);
}

const step_kind column_product = {
    .forward = column_forward, .backward = column_backward, .saves_reads = 1u, .gathers = true
};
const step_kind row_product = { .forward = row_forward, .backward = row_backward, .saves_reads = 1u };
