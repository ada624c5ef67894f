/* The conjugate pairs of tensor parallelism with sequence parallelism (Korthikanti et al. 2022, section 4.2.2):
 * gather in forward is scatter in backward and the other way round. On one rank they cost nothing. */
#pragma once
#include "parallel/lanes.h"

/* [s/T, b, n] of every rank -> [s, b, n]. Returns `whole`, or `part` itself on one rank (then whole is unused). */
tensor sequence_gather(const lanes *l, const char *name, group *g, tensor part, tensor whole);

/* out [s/T, b, n] = own part of the sum over ranks of a [rows, k] w [k, n]. On one rank the product writes `out`;
 * else it writes the FP32 `partial` [s, b, n], which is summed in FP32 and rounded once. */
typedef struct { tensor a, w, partial, out; } scattered_product;
void matmul_sequence_scatter(const lanes *l, const char *name, group *g, scattered_product p);

/* x = sum over ranks, in place. */
void tensor_all_reduce(const lanes *l, const char *name, group *g, tensor x);
