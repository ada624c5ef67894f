/* Conjugate pairs. */
#include "parallel/conjugate.h"
#include "machine/kernels.h"

tensor sequence_gather(const lanes *l, const char *name, group *g, tensor part, tensor whole)
{
    if (g->size == 1) return part;
    lane_follow(l->tensor, l->compute);
    queue_wait(l->compute, all_gather(l->tensor, name, g, whole, part));
    return whole;
}

void matmul_sequence_scatter(const lanes *l, const char *name, group *g, scattered_product p)
{
    tensor product = g->size == 1 ? p.out : p.partial;
    matmul(l->compute, name, tensor_rows(product), WRITE, p.a, p.w);
    if (g->size == 1) return;
    lane_follow(l->tensor, l->compute);
    queue_wait(l->compute, reduce_scatter(l->tensor, name, g, p.out, product));
}

void tensor_all_reduce(const lanes *l, const char *name, group *g, tensor x)
{
    if (g->size == 1) return;
    lane_follow(l->tensor, l->compute);
    queue_wait(l->compute, all_reduce(l->tensor, name, g, x));
}
