/* The queues of one trainer, and the order between them. */
#pragma once
#include "parallel/mesh.h"

typedef struct {
    machine *machine;
    bool overlap;       /* communication runs next to computation */
    queue *compute;     /* kernels, products, and the sums over tensor ranks */
    queue *weight;      /* products for weight gradients; `compute` if they have no separate queue */
    queue *tensor;      /* transfers of the tensor axis */
    queue *gradient;    /* sums of gradients and gathers of weights over data, shard and context ranks */
    queue *context;     /* transfers of the context axis, and sums of the transferred data */
    queue *link[LINKS]; /* activations and gradients between pipeline stages, one for each link */
} queues;

queues queues_open(machine *m, bool overlap, bool weight_queue);
/* Submits a transfer that waits for earlier computation; later computation waits for the transfer. */
void queues_transfer(const queues *l, queue *q, const char *name, op o);
/* Operands of out = own part of the sum over ranks of partial, which is added in FP32 in rank order and rounded once.
 * parts: receive buffer for this rank's part from all ranks, with the size and type of partial. */
typedef struct {
    tensor partial, parts, out;
} scattered_sum;
/* Submits the sum after earlier computation. Without overlap, later computation waits for it. */
mark queues_scatter_sum(const queues *l, queue *q, const char *name, group *g, scattered_sum x);
/* Sets x = sum over the group, in place, with queues_transfer. */
void queues_all_reduce(const queues *l, queue *q, const char *name, group *g, tensor x);
/* Makes later computation wait for a transfer, unless communication overlaps. */
void queues_wait_unless_overlap(const queues *l, mark m);
