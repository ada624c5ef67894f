/* Conjugate pairs. */
#include "parallel/conjugate.h"
#include "machine/queue/submit.h"

static tensor strip(const sequence_parallel *p, tensor x, int j)
{
    int64_t rows = x.dim[0] / p->strips;
    return tensor_slice(x, 0, j * rows, rows);
}

gathering sequence_gather_begin(const sequence_parallel *p, const char *name, tensor part, tensor whole, mark after)
{
    const queues *l = &p->queues;
    gathering x = { .whole = whole };
    if (p->ranks->size == 1) return (gathering){ .whole = part };
    queue_wait(l->tensor, l->overlap ? after : queue_mark(l->compute));
    for (int j = 0; j < p->strips; j++)
        x.strip[j] = submit(l->tensor, name, all_gather_op(p->ranks, strip(p, whole, j), strip(p, part, j)));
    queues_wait_unless_overlap(l, x.strip[p->strips - 1]);
    return x;
}

tensor sequence_gather_end(const sequence_parallel *p, const gathering *x, queue *reader)
{
    queue_wait(reader, x->strip[p->strips - 1]);
    return x->whole;
}

tensor sequence_gather(const sequence_parallel *p, const char *name, tensor part, tensor whole)
{
    gathering x = sequence_gather_begin(p, name, part, whole, queue_mark(p->queues.compute));
    return sequence_gather_end(p, &x, p->queues.compute);
}

/* The sum is made where its parts arrive, beside the product of the next strip. */
static mark scatter_strip(const sequence_parallel *p, const char *name, const scattered_sum *x, int j)
{
    scattered_sum of = { strip(p, x->partial, j), strip(p, x->parts, j), strip(p, x->out, j) };
    return queues_scatter_sum(&p->queues, p->queues.tensor, name, p->ranks, of);
}

void sequence_scatter(const sequence_parallel *p, const char *name, scattered_sum x)
{
    mark done = { 0 };
    for (int j = 0; j < p->strips; j++) done = scatter_strip(p, name, &x, j);
    queue_wait(p->queues.compute, done);
}

tensor gather_matmul(const sequence_parallel *p, const char *name, gathered_product x)
{
    queue *q = p->queues.compute;
    gathering g = sequence_gather_begin(p, name, x.part, x.whole, queue_mark(q));
    tensor whole = tensor_rows(g.whole), y = tensor_rows(x.y);
    for (int j = 0; j < p->strips; j++) {
        queue_wait(q, g.strip[j]);
        submit(q, name, matmul_bias_op(strip(p, y, j), strip(p, whole, j), x.w, x.bias));
    }
    return g.whole;
}

static void matmul_scatter_strips(const sequence_parallel *p, const char *name, const scattered_product *x)
{
    mark done = { 0 };
    tensor partial = tensor_rows(x->sum.partial), a = tensor_rows(x->a);
    tensor bias = p->ranks->rank == 0 ? x->bias : tensor_none();
    for (int j = 0; j < p->strips; j++) {
        submit(p->queues.compute, name, matmul_bias_op(strip(p, partial, j), strip(p, a, j), x->w, bias));
        done = scatter_strip(p, name, &x->sum, j);
    }
    queue_wait(p->queues.compute, done);
}

void matmul_scatter(const sequence_parallel *p, const char *name, scattered_product x)
{
    if (p->ranks->size > 1) matmul_scatter_strips(p, name, &x);
    else submit(p->queues.compute, name, matmul_bias_op(tensor_rows(x.sum.out), tensor_rows(x.a), x.w, x.bias));
}
