/* The transfers among the ranks of a group, made by pure functions as computing operations are (kernels.h). Every rank
 * of a group submits the same transfers in the same order. */
#pragma once
#include "machine/group.h"
#include "machine/op.h"

/* to [size * n] = the parts of all ranks in rank order, from [n]. In place (from absent): own part already lies in
 * `to`. */
op all_gather_op(group *g, tensor to, tensor from);
/* to [n] = own part of the sum over ranks of from [size * n]; added in FP32 in rank order, rounded once to to's type.
 * In place (to absent): own part of `from` becomes the sum, the rest keeps this rank's values. */
op reduce_scatter_op(group *g, tensor to, tensor from);
/* x = sum over ranks, in rank order; F32 and BF16 in FP32 and rounded once, F64 in double, U64 exactly. */
op all_reduce_op(group *g, tensor x);

/* All point-to-point transfers of one instant; peer is a rank of the group. At most OP_OPERANDS. */
typedef struct {
    bool send;
    int peer;
    tensor tensor;
} transfer;
op exchange_op(group *g, const transfer *list, int count);
