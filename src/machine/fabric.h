/* The transfers among the ranks of a group. Every rank of it submits the same transfers in the same order. */
#pragma once
#include "machine/group.h"
#include "machine/machine.h"

/* to [size * n] = the parts of all ranks in rank order, from [n]. In place (from absent): own part already lies in
 * `to`. */
mark all_gather(queue *q, const char *name, group *g, tensor to, tensor from);
/* to [n] = own part of the sum over ranks of from [size * n]; added in FP32 in rank order, rounded once to to's type.
 * In place (to absent): own part of `from` becomes the sum, the rest keeps this rank's values. */
mark reduce_scatter(queue *q, const char *name, group *g, tensor to, tensor from);
/* x = sum over ranks, in rank order; F32 and BF16 in FP32 and rounded once, F64 in double, U64 exactly. */
mark all_reduce(queue *q, const char *name, group *g, tensor x);

/* All point-to-point transfers of one instant; peer is a rank of the group. At most OP_OPERANDS. */
typedef struct {
    bool send;
    int peer;
    tensor tensor;
} transfer;
mark fabric_exchange(queue *q, const char *name, group *g, const transfer *list, int count);
