/* What a rank keeps from step to step, told by the catalogue alone: for what the model code cannot lay out yet. Where
 * it can, its own table of parameters counts (model/param.h), which rounds every bucket up to equal shards; else the
 * two agree. */
#pragma once
#include "plan/model/catalogue.h"

typedef struct {
    int64_t parameters; /* held, padding excluded; with shard > 1 the own part of them, rounded up */
    int64_t replicated; /* of these: on every tensor rank (norms, biases after a sum, positions, router) */
    int64_t experts;    /* of these: of the own experts */
    int64_t weights, gradients, optimizer; /* bytes, padded vocabulary included */
} rank_states;

/* Of the rank at mesh coordinates at[]. Parts are rounded up to whole elements. Without shard every rank holds its
 * stage's share between the tensor ranks; the optimizer's part of it is spread over data x context (sharding =
 * optimizer), of the experts over the data x context / expert ranks that hold the same ones. shard divides all of it;
 * the layer that is gathered while it computes is not counted. Gradients of what every tensor rank holds keep FP32 sums
 * beside them if they are narrower; a weight as wide as the master is its own; a tied embedding has two gradients where
 * one stage uses it twice. */
rank_states states_of(const bench_case *c, const int at[AXES]);
/* Rows of the unpadded vocabulary that a tensor rank holds. */
int64_t vocabulary_rows(const bench_case *c, int tensor_rank);
