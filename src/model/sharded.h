/* Weights that live as parts over the shard axis (Zhao et al. 2023, FSDP). What a step uses is known beforehand, from
 * its schedule: while one unit, a layer's matrices or those of an end of the network, is computed with, the next ones
 * are gathered into buffers used in turn. A microbatch's gradient has buffers of its own, from which it is summed over
 * the ranks (train/gradient.c). */
#pragma once
#include "model/param.h"
#include "parallel/queues.h"
#include "plan/model/chunks.h"
#include "plan/schedule/schedule.h"

/* Gathered ahead are all buffers but the one in use: the sum of the last layer's gradient stands in the queue between
 * two gatherings, and may wait for weight gradients that are behind. */
enum { UNIT_BUFFERS = 3, MICROBATCH_BUFFERS = 2 };

typedef struct {
    tensor memory;
    int unit;     /* that it holds, or held; -1: none */
    int64_t last; /* place in the order of use up to which it is wanted; -1: what it holds is of another step */
} weight_buffer;

typedef struct {
    tensor memory;
    bucket *of; /* whose contributions it takes, or NULL */
    mark busy;
} gradient_buffer;

typedef struct sharded {
    param_table *params;
    queues queues;
    int *order;        /* [length] units of a step as they are used */
    int64_t length;    /* 0: nothing is gathered for use */
    int64_t at, ahead; /* place of the unit in use, -1 before the first; of the next to be gathered */
    weight_buffer weight[UNIT_BUFFERS];
    gradient_buffer gradient[MICROBATCH_BUFFERS];
    int next;          /* gradient buffer */
    tensor parts, sum; /* of a microbatch's gradient: all ranks' of the own part; their sum */
} sharded;

/* Takes memory for the stage's units and makes the order of their use. params, opened and staying where they are, and
 * queues are given. */
void sharded_open(sharded *s, const chunk_extent *chunk, const schedule *order, arena *a);
void sharded_close(sharded *s);
/* A step begins: its first units are gathered behind the update of their parts. */
void sharded_step(sharded *s);
/* The bucket's unit is computed with next: b->gathered says when it is there. Units are reached in their order. */
void sharded_reach(sharded *s, const bucket *b);

/* A buffer for the contributions of a microbatch, of which the first is submitted to the queue next: b->microbatch. */
void sharded_take_gradient(sharded *s, bucket *b, queue *q);
/* The buffer is free at that mark. */
void sharded_give_gradient(sharded *s, bucket *b, mark until);
/* Where the sum over the ranks is made: parts [ranks * own part], sum [own part]. */
typedef struct {
    tensor parts, sum;
} gradient_sum;
gradient_sum sharded_sum(const sharded *s, const bucket *b);
