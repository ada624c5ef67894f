/* Partial products of several tensor ranks, computed by one. */
#include "parallel/imitation.h"
#include "machine/queue/submit.h"

scattered_sum imitation_open(const sequence_parallel *p, tensor shape, arena *a)
{
    tensor wide = shape;
    if (p->imitated == 0) return (scattered_sum){ .partial = tensor_none() };
    wide.type = F32;
    return (scattered_sum){ .partial = tensor_taken(a, ACTIVATIONS, wide),
                            .parts = tensor_taken(a, ACTIVATIONS,
                                                  tensor_2d(NULL, shape.type, p->imitated, tensor_elements(&shape))) };
}

/* Returns a view in which every row is the bias. */
static tensor repeated(tensor bias, tensor like)
{
    like.data = bias.data;
    like.type = bias.type;
    like.stride[0] = 0;
    return like;
}

static op product(tensor c, access_mode how, tensor a, tensor b)
{
    return a.dims == 2 ? matmul_op(c, how, a, b) : grouped_matmul_op(c, how, a, b);
}

/* Computes the FP32 sums over the columns of one rank. */
static void multiply_one(const sequence_parallel *p, const char *name, const imitated_product *x, int rank)
{
    queue *q = p->queues.compute;
    bool biased = rank == 0 && tensor_present(&x->bias);
    int column = x->a.dims - 1, row = x->w.dims - 2;
    if (biased) submit(q, name, copy_op(x->made, WRITE, repeated(x->bias, x->made)));
    int64_t begin = 0;
    for (int i = 0; i < x->runs.count; i++) {
        int64_t n = x->runs.columns[i] / p->imitated, at = begin + rank * n;
        submit(q, name,
               product(x->made, biased || i > 0 ? UPDATE : WRITE, tensor_slice(x->a, column, at, n),
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
