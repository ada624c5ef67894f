/* The conjugate pairs of tensor parallelism with sequence parallelism (Korthikanti et al. 2022, section 4.2.2): gather
 * in forward is scatter in backward and the other way round. On one rank they cost nothing.
 *
 * The s positions of a context rank are dealt to its T tensor ranks in K strips: strip j of rank t is the positions
 * [j s/K + t s/(K T), + s/(K T)). What all ranks have of strip j is then [j s/K, (j + 1) s/K), in order, so that the
 * product of one strip runs beside the transfer of another: only the first gather and the last scatter are exposed. */
#pragma once
#include "parallel/queues.h"
#include "plan/bench_case.h"

typedef struct {
    queues queues;
    group *ranks;
    int strips;
    int imitated; /* one rank rounds partial sums as so many do (parallel/imitation.h); 0: it makes one sum */
} sequence_parallel;

/* [s/T, b, n] of every rank -> [s, b, n]. Returns `whole`, or `part` itself on one rank (then whole is unused). */
tensor sequence_gather(const sequence_parallel *p, const char *name, tensor part, tensor whole);

/* The same behind other work, with overlap: it follows `after` alone (`part` is there and nobody uses `whole` any
 * more), and `reader` reads `whole` after its end. */
typedef struct {
    tensor whole;
    mark strip[STRIPS_MOST]; /* when it is there */
} gathering;
gathering sequence_gather_begin(const sequence_parallel *p, const char *name, tensor part, tensor whole, mark after);
tensor sequence_gather_end(const sequence_parallel *p, const gathering *x, queue *reader);

/* out [s/T, b, n] = own strips of the sum over ranks of partial [s, b, n]. */
void sequence_scatter(const sequence_parallel *p, const char *name, scattered_sum x);

/* y [s, b, n] = gathered part [s/T, b, k] w [k, n] + bias [n]; absent: none. Returns what sequence_gather would. */
typedef struct {
    tensor part, w, bias, whole, y;
} gathered_product;
tensor gather_matmul(const sequence_parallel *p, const char *name, gathered_product x);

/* sum.out = own strips of the sum over ranks of a [s, b, k] w [k, n], each rank's product rounded to partial's type,
 * the first one's with the bias [n], which all have; absent: none. On one rank the product writes `out`. */
typedef struct {
    tensor a, w, bias;
    scattered_sum sum;
} scattered_product;
void matmul_scatter(const sequence_parallel *p, const char *name, scattered_product x);
