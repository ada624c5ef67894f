/* The rounding of tensor parallelism, imitated on one rank. T tensor ranks that share a product's sum each round their
 * partial sum to the format of the activations. The partial sums are then added in FP32 in rank order and rounded once
 * (parallel/conjugate.h). The check's reference, which computes on one rank, must round at the same places. */
#pragma once
#include "parallel/conjugate.h"

enum { RUNS_MOST = 3 };
/* Columns that are split over the tensor ranks: consecutive runs (queries, keys, values), each split evenly. */
typedef struct {
    int count;
    int64_t columns[RUNS_MOST];
} column_runs;

/* Operands of sum.out = sum of T partial products a [m, k] w [k, n]; a and w may be groups of matrices. made:
 * sum.partial (FP32) in the shape that the product writes, [m, n]. bias [n] is added with the first rank's product; it
 * may be absent. */
typedef struct {
    tensor a, w, bias, made;
    column_runs runs;
    scattered_sum sum;
} imitated_product;

/* Takes the buffers for sums of this shape: `partial` for one rank's, `parts` for all. Both are absent if p->imitated
 * is 0. */
scattered_sum imitation_open(const sequence_parallel *p, tensor shape, arena *a);
/* Submits the products of p->imitated ranks and their sum to the compute queue. */
void imitation_multiply(const sequence_parallel *p, const char *name, imitated_product x);
