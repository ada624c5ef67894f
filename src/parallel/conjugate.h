/* Conjugate pairs of tensor parallelism with sequence parallelism (Korthikanti et al. 2022, section 4.2.2): a gather in
 * forward is a scatter in backward, and vice versa. On one rank they cost nothing. All functions only submit, and are
 * collective over the tensor ranks.
 *
 * The s positions of a context rank form K strips of s/K; each strip is split evenly over the T tensor ranks in order.
 * The product of one strip runs during the transfer of another: only the first gather and last scatter are exposed. */
#pragma once
#include "parallel/queues.h"
#include "plan/bench_case.h"

typedef struct {
    queues queues;
    group *ranks;
    int strips;
    int imitated; /* ranks whose rounding of partial sums one rank imitates (parallel/imitation.h); 0: none */
} sequence_parallel;

/* Gathers [s/T, b, n] of every rank into [s, b, n]. Returns `whole`, or on one rank `part` (whole is unused then). */
tensor sequence_gather(const sequence_parallel *p, const char *name, tensor part, tensor whole);

/* The same gather in two calls. With overlap, other work runs in between: the transfer waits only for `after`, the mark
 * at which `part` is ready and `whole` is free. sequence_gather_end makes the queue `reader` wait for the result. */
typedef struct {
    tensor whole;
    mark strip[STRIPS_MOST]; /* arrival of each strip */
} gathering;
gathering sequence_gather_begin(const sequence_parallel *p, const char *name, tensor part, tensor whole, mark after);
tensor sequence_gather_end(const sequence_parallel *p, const gathering *x, queue *reader);

/* Sets out [s/T, b, n] = own strips of the sum over ranks of partial [s, b, n]. */
void sequence_scatter(const sequence_parallel *p, const char *name, scattered_sum x);

/* Operands of y [s, b, n] = gathered part [s/T, b, k] w [k, n] + bias [n] (or none). Returns the gathered operand. */
typedef struct {
    tensor part, w, bias, whole, y;
} gathered_product;
tensor gather_matmul(const sequence_parallel *p, const char *name, gathered_product x);

/* Operands of sum.out = own strips of the sum over ranks of a [s, b, k] w [k, n], each rank's product rounded to
 * partial's type. All ranks have the bias [n] (or none); the first adds it. On one rank the product writes `out`. */
typedef struct {
    tensor a, w, bias;
    scattered_sum sum;
} scattered_product;
void matmul_scatter(const sequence_parallel *p, const char *name, scattered_product x);
