/* The queues of one trainer, and the order between them. */
#pragma once
#include "parallel/mesh.h"

typedef struct {
    machine *machine;
    bool overlap;       /* communication beside computation */
    queue *compute;     /* kernels, products, and the sums over tensor ranks */
    queue *weight;      /* products that are weight gradients; compute itself, if they have no queue of their own */
    queue *tensor;      /* transfers of the tensor axis */
    queue *gradient;    /* gradients summed and weights gathered over data, shard and context ranks */
    queue *context;     /* transfers of the context axis, and the sums of what they bring */
    queue *link[LINKS]; /* activations and gradients between pipeline stages, one for each link */
} queues;

queues queues_open(machine *m, bool overlap, bool weight_queue);
/* A transfer between computations: it follows those submitted, and those to come wait for it. */
void queues_transfer(const queues *l, queue *on, const char *name, op o);
/* out = own part of the sum over ranks of partial, which is added in FP32 in rank order and rounded once. parts, as
 * large as partial and of its type: where all ranks' own parts arrive. */
typedef struct {
    tensor partial, parts, out;
} scattered_sum;
/* Behind what was computed, on a queue of transfers; without overlap what computes next waits for it. */
mark queues_scatter_sum(const queues *l, queue *on, const char *name, group *g, scattered_sum x);
/* x = sum over the ranks of the group, in place, between computations. */
void queues_all_reduce(const queues *l, queue *on, const char *name, group *g, tensor x);
/* Without overlap: what computes next waits for the mark of a transfer that nothing needs yet. */
void queues_wait_unless_overlap(const queues *l, mark m);
