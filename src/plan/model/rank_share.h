/* What one rank holds and computes, by the list of parameters. The trainer's own table (model/param.h) agrees, but
 * rounds every bucket up to equal shards. */
#pragma once
#include "plan/model/params.h"

typedef struct {
    int64_t parameters; /* held, padding excluded; with shard > 1 the own part of them, rounded up, of vectors too */
    int64_t replicated; /* of these: on every tensor rank (norms, biases after a sum, positions, router) */
    int64_t experts;    /* of these: of the own experts */
    int64_t weights, gradients, optimizer; /* bytes, padded vocabulary included */
} rank_states;

/* Of the rank at mesh coordinates at[]. Parts are rounded up to whole elements. Without shard every rank holds its
 * stage's share between the tensor ranks; the optimizer's part of it is spread over data x context (sharding =
 * optimizer), of the experts over the data x context / expert ranks that hold the same ones. shard divides what is
 * gathered for use (params.h), and the optimizer of the rest; what is gathered is not counted. A tied embedding is held
 * by the first stage and the last, each of which receives what the other owns of its gradient; where they are one, it
 * has two gradients. */
rank_states states_of(const bench_case *c, const int at[AXES]);

/* Model flops of one step of that rank, an exact integer: own part of the products, half the attention square (a
 * zig-zag of context pieces halves it for every rank), nothing computed again. Expert ranks share the tokens evenly.
 * Summed over all ranks it is the global batch times model_flop_count. */
flop_count rank_model_flops(const bench_case *c, const int at[AXES]);
/* Of one step of all ranks. */
flop_count step_model_flops(const bench_case *c);
