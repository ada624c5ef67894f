/* Rounding of tensor parallelism on one rank. T tensor ranks that share a product's sum each round their partial sum to
 * the format of the activations; the partial sums are then added in FP32 in rank order and rounded once
 * (parallel/conjugate.h). The check's reference of the run's precision computes on one rank and rounds at the same
 * places. */
#pragma once
#include "parallel/conjugate.h"

enum { RUNS_MOST = 3 };
/* Columns that are split over the tensor ranks: runs one after the other (queries, keys, values), of each of which
 * every rank has an equal piece. */
typedef struct {
    int count;
    int64_t columns[RUNS_MOST];
} column_runs;

/* sum.out = the sum of T partial products a [m, k] w [k, n]; a and w may be groups of matrices. made: sum.partial,
 * which is FP32, as the product writes it, [m, n]. bias [n] is added with the first rank's product; absent: none. */
typedef struct {
    tensor a, w, bias, made;
    column_runs runs;
    scattered_sum sum;
} imitated_product;

/* Takes the buffers for sums of that shape: `partial` for one rank's, `parts` for all; absent unless p->imitated. */
scattered_sum imitation_open(const sequence_parallel *p, tensor shape, arena *a);
/* Submits the products of p->imitated ranks and their sum to the compute queue. */
void imitation_multiply(const sequence_parallel *p, const char *name, imitated_product x);
