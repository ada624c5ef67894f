/* The conjugate pairs of tensor parallelism with sequence parallelism (Korthikanti et al. 2022, section 4.2.2):
 * gather in forward is scatter in backward and the other way round. On one rank they cost nothing.
 *
 * With overlap a gather and its product, or a product and its scatter, are one ring of exchanges and products of row
 * chunks (Wang et al., ASPLOS 2023). It turns in both directions at once, one queue each: the first half of every
 * rank's rows goes from rank to the rank after, the second half from rank to the rank before. */
#pragma once
#include "parallel/queues.h"

/* [s/T, b, n] of every rank -> [s, b, n]. Returns `whole`, or `part` itself on one rank (then whole is unused). */
tensor sequence_gather(const queues *l, const char *name, group *g, tensor part, tensor whole);

/* The same behind other work, with overlap: it follows `after` alone (`part` is there and nobody uses `whole` any
 * more), and whoever reads `whole` comes after its end. */
typedef struct {
    tensor whole;
    mark done;
} gathering;
gathering sequence_gather_begin(const queues *l, const char *name, group *g, tensor part, tensor whole, mark after);
tensor sequence_gather_end(const queues *l, gathering x);

/* y [s, b, n] = gathered part [s/T, b, k] w [k, n]. Returns `whole`, or `part` itself on one rank; with overlap it
 * holds this rank's own rows only if keeps_whole says that somebody reads it. */
typedef struct {
    tensor part, w, whole, y;
    bool keeps_whole;
} gathered_product;
tensor gather_matmul(const queues *l, const char *name, group *g, gathered_product p);

/* out [s/T, b, n] = own part of the sum over ranks of a [s, b, k] w [k, n]. On one rank the product writes `out`; else
 * FP32 sums pass through `partial` and are rounded once. Without overlap: the product is partial [s, b, n], added in
 * rank order. With overlap: partial [2 s/T, b, n] holds sums on their way. Those of rank r's first half begin on rank r
 * + 1, each rank adding its product to what arrives, so that they are added in the order r + 1, r + 2, ..., r; of its
 * second half r - 1, r - 2, ..., r. */
typedef struct {
    tensor a, w, partial, out;
} scattered_product;
void matmul_scatter(const queues *l, const char *name, group *g, scattered_product p);
/* How many ranks' parts of rows `partial` has. */
int scatter_partial_parts(const queues *l, const group *g);
