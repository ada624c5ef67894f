/* A stage: this rank's share of the network, and its verbs. The mathematics is in the family's steps and in ends.c;
 * none of it knows how many ranks there are beyond the conjugate pairs, nor who is before and behind it:
 * train/pipeline.c brings a chunk's input and takes its output. */
#pragma once
#include "model/ends.h"
#include "model/sharded.h"

/* What a chunk's output, or a gradient, goes through on its way to another stage: buffers used in turn. */
enum { BOUNDARY_BUFFERS = 3 };
typedef struct {
    tensor tensor;
    mark busy;
} boundary_buffer;
typedef struct {
    boundary_buffer buffer[BOUNDARY_BUFFERS];
    int count, next;
} boundary;

typedef struct {
    const bench_case *given;
    param_table params;
    sharded sharded;
    chunk_extent *chunk; /* [chunks_per_stage] */
    tape tape;
    workspace work;
    network_ends ends;
    boundary outputs, gradients; /* of chunks: [s/T, b, h]; gradients are received, replaced and sent on */
    tensor loss;    /* [microbatches b] F64: per sequence, summed over local positions; 0 without the loss */
    tensor scalars; /* [STEP_SCALARS] F64 */
    int64_t data_ranks, data_rank; /* whose samples: sample = (m data_ranks + data_rank) b + row */
} stage;

/* The stage must stay where it is. Synchronizes (set-up). */
void stage_open(stage *s, const bench_case *c, mesh *m, const queues *q, const schedule *order, arena *a);
void stage_close(stage *s);
/* A step begins: nothing is in flight. */
void stage_step(stage *s);

/* Forward of a chunk, from tape_input (which the caller has taken and, unless the chunk has the embedding, filled) to
 * `output`, which a chunk with the loss does not have. The caller has said who asks (parallel/origin.h). */
void stage_forward(stage *s, int chunk, int64_t microbatch, tensor output);
/* Backward: dx [s/T, b, h], the gradient of the output (which a chunk with the loss makes itself), becomes that of the
 * input. */
void stage_backward(stage *s, int chunk, int64_t microbatch, tensor dx);
/* The weight gradient that the microbatch's backward left out (schedule_defers). */
void stage_backward_weight(stage *s, int64_t microbatch);

/* The next buffer; the queue waits until it is free. The caller sets `busy` to the mark of its last use. */
boundary_buffer *boundary_next(boundary *b, queue *q);
