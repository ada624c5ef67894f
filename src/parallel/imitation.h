/* The rounding of tensor parallelism, imitated on one rank. Each of T tensor ranks rounds its partial product to the
 * format of the activations; these are added in FP32 in rank order and rounded once (parallel/conjugate.h). The check's
 * reference computes on one rank and must round in the same way. */
#pragma once
#include "parallel/conjugate.h"

enum { RUNS_MOST = 3 };
/* Columns that are split over the tensor ranks: consecutive runs (queries, keys, values), each split evenly. */
typedef struct {
    int count;
    int64_t columns[RUNS_MOST];
} column_runs;

/* Operands of sum.out = sum of T partial products a [m, k] w [k, n]; a and w may be groups of matrices. product: view
 * of sum.partial (FP32) as [m, n]. bias [n], or none, is added to the first rank's product. */
typedef struct {
    tensor a, w, bias, product;
    column_runs runs;
    scattered_sum sum;
} imitated_product;

/* Takes buffers for a sum of this shape: partial for one rank's product, parts for all; none if p->imitated is 0. */
scattered_sum imitation_open(const sequence_parallel *p, tensor shape, arena *a);
/* Submits the products of p->imitated ranks and their sum to the compute queue. */
void imitation_multiply(const sequence_parallel *p, const char *name, imitated_product x);
