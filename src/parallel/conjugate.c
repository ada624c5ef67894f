/* Conjugate pairs of transfers. */
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

/* Sends the partial sums of strip j after they are computed. */
static mark send_strip(const sequence_parallel *p, const char *name, const scattered_sum *x, int j)
{
    const queues *l = &p->queues;
    queue_follow(l->tensor, l->compute);
    return submit(l->tensor, name, all_to_all_op(p->ranks, strip(p, x->parts, j), strip(p, x->partial, j)));
}

/* Adds the parts of each strip when they have arrived. On the tensor queue, a sum would wait for the running product
 * and delay the next strip's transfer; therefore the sums are on the compute queue. */
static void add_strips(const sequence_parallel *p, const char *name, const scattered_sum *x, const mark *arrived)
{
    queue *q = p->queues.compute;
    for (int j = 0; j < p->strips; j++) {
        queue_wait(q, arrived[j]);
        submit(q, name, sum_parts_op(strip(p, x->out, j), strip(p, x->parts, j)));
    }
}

void sequence_scatter(const sequence_parallel *p, const char *name, scattered_sum x)
{
    mark sent[STRIPS_MOST];
    for (int j = 0; j < p->strips; j++) sent[j] = send_strip(p, name, &x, j);
    add_strips(p, name, &x, sent);
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
    mark sent[STRIPS_MOST];
    tensor partial = tensor_rows(x->sum.partial), a = tensor_rows(x->a);
    tensor bias = p->ranks->rank == 0 ? x->bias : tensor_none();
    for (int j = 0; j < p->strips; j++) {
        submit(p->queues.compute, name, matmul_bias_op(strip(p, partial, j), strip(p, a, j), x->w, bias));
        sent[j] = send_strip(p, name, &x->sum, j);
        queues_wait_unless_overlap(&p->queues, sent[j]);
    }
    add_strips(p, name, &x->sum, sent);
}

void matmul_scatter(const sequence_parallel *p, const char *name, scattered_product x)
{
    if (p->ranks->size > 1) matmul_scatter_strips(p, name, &x);
    else submit(p->queues.compute, name, matmul_bias_op(tensor_rows(x.sum.out), tensor_rows(x.a), x.w, x.bias));
}
