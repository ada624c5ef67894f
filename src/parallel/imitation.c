/* Partial products of several tensor ranks, computed on one rank. */
#include "parallel/imitation.h"
#include "machine/queue/submit.h"

scattered_sum imitation_open(const sequence_parallel *p, tensor shape, arena *a)
{
    tensor fp32 = shape;
    if (p->imitated == 0) return (scattered_sum){ .partial = tensor_none() };
    fp32.type = F32;
    return (scattered_sum){ .partial = tensor_taken(a, ACTIVATIONS, fp32),
                            .parts = tensor_taken(a, ACTIVATIONS,
                                                  tensor_2d(NULL, shape.type, p->imitated, tensor_elements(&shape))) };
}

static tensor broadcast_rows(tensor bias, tensor shape)
{
    shape.data = bias.data;
    shape.type = bias.type;
    shape.stride[0] = 0;
    return shape;
}

static op product_op(tensor c, access_mode how, tensor a, tensor b)
{
    return a.dims == 2 ? matmul_op(c, how, a, b) : grouped_matmul_op(c, how, a, b);
}

/* Computes the FP32 product over one rank's columns. */
static void multiply_one(const sequence_parallel *p, const char *name, const imitated_product *x, int rank)
{
    queue *q = p->queues.compute;
    bool biased = rank == 0 && tensor_present(&x->bias);
    int column = x->a.dims - 1, row = x->w.dims - 2;
    if (biased) submit(q, name, copy_op(x->product, WRITE, broadcast_rows(x->bias, x->product)));
    int64_t begin = 0;
    for (int i = 0; i < x->runs.count; i++) {
        int64_t n = x->runs.columns[i] / p->imitated, at = begin + rank * n;
        submit(q, name,
               product_op(x->product, biased || i > 0 ? UPDATE : WRITE, tensor_slice(x->a, column, at, n),
                          tensor_slice(x->w, row, at, n)));
        begin += x->runs.columns[i];
    }
}

void imitation_multiply(const sequence_parallel *p, const char *name, imitated_product x)
{
    queue *q = p->queues.compute;
    for (int rank = 0; rank < p->imitated; rank++) {
        multiply_one(p, name, &x, rank);
        submit(q, name, copy_op(tensor_flat(tensor_slice(x.sum.parts, 0, rank, 1)), WRITE, tensor_flat(x.sum.partial)));
    }
    submit(q, name, sum_parts_op(x.sum.out, x.sum.parts));
}
