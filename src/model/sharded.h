/* Weights that live as parts on the shard axis (FSDP, Zhao et al. 2023). What a step uses is known from its schedule.
 * While one unit (a layer's matrices, or those of an end of the network) is in use, the next ones are gathered into
 * buffers that are used in turn. A microbatch's gradient has separate buffers, from which it is summed over the ranks
 * (train/gradient.c). */
#pragma once
#include "model/param.h"
#include "parallel/queues.h"
#include "plan/model/chunks.h"
#include "plan/schedule/schedule.h"

/* All buffers but the one in use are gathered ahead. Between two gathers, the same queue sums a layer's gradients,
 * which may wait for late weight gradients. */
enum { UNIT_BUFFERS = 3, MICROBATCH_BUFFERS = 2 };

typedef struct {
    tensor memory;
    int unit;             /* unit that it holds, or held; -1: none */
    int64_t needed_until; /* last place in the order of use that needs it; -1: it has another step's weights */
} weight_buffer;

typedef struct {
    tensor memory;
    bucket *owner; /* bucket whose contributions it takes, or NULL */
    mark last_use;
} gradient_buffer;

typedef struct sharded {
    param_table *params;
    queues queues;
    int *order;                  /* [length] units of a step in the order of use */
    int64_t length;              /* 0: nothing is gathered for use */
    int64_t in_use, next_gather; /* place of the unit in use, -1 before the first; of the next to gather */
    weight_buffer weight[UNIT_BUFFERS];
    gradient_buffer gradient[MICROBATCH_BUFFERS];
    int next_gradient; /* next gradient buffer */
    tensor parts, sum; /* of a microbatch's gradient: all ranks' shares of the own part; their sum */
} sharded;

/* Takes memory for the stage's units and makes the order of their use. params (opened, at a fixed address) and queues
 * must be set. */
void sharded_open(sharded *s, const chunk_extent *chunk, const schedule *order, arena *a);
void sharded_close(sharded *s);
/* Begins a step: gathers its first units after the update of their parts. */
void sharded_step(sharded *s);
/* Makes the bucket's unit the one in use; b->gathered marks its arrival. Units are used in their order. */
void sharded_advance(sharded *s, const bucket *b);

/* Takes a buffer, b->microbatch, for a microbatch's contributions; the first one is submitted to the queue next. */
void sharded_take_gradient(sharded *s, bucket *b, queue *q);
/* Releases the buffer at that mark. */
void sharded_release_gradient(sharded *s, bucket *b, mark until);
/* Buffers of the sum over the ranks: parts [ranks * own part], sum [own part]. */
typedef struct {
    tensor parts, sum;
} gradient_sum;
gradient_sum sharded_sum(const sharded *s, const bucket *b);
