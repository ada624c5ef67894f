/* A stage: this rank's share of the network, and its functions. The mathematics is in the family's steps and in ends.c.
 * These know neither the number of ranks, except in the conjugate pairs, nor the neighbouring stages: train/pipeline.c
 * brings a chunk's input and takes its output. */
#pragma once
#include "model/ends.h"
#include "model/sharded.h"

/* Buffers, used in turn, for outputs of chunks or gradients on their way to another stage. */
enum { BOUNDARY_BUFFERS = 3 };
typedef struct {
    tensor tensor;
    mark last_use;
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
    tensor loss;    /* [microbatches b] F64: of each sequence, summed over local positions; 0 without the loss */
    tensor scalars; /* [STEP_SCALARS] F64 */
    int64_t data_ranks, data_rank; /* this rank's samples: sample = (m data_ranks + data_rank) b + row */
} stage;

/* Opens a stage, which must not move afterwards. Waits for the set-up. */
void stage_open(stage *s, const bench_case *c, mesh *m, const queues *q, const schedule *order, arena *a);
void stage_close(stage *s);
/* Begins a step: nothing is in flight. */
void stage_step(stage *s);

/* Submits a chunk's forward, from tape_input to `output`, which is absent in a chunk with the loss. The caller has
 * taken the input, filled it unless the chunk has the embedding, and set the origin (parallel/origin.h). */
void stage_forward(stage *s, int chunk, int64_t microbatch, tensor output);
/* Submits a chunk's backward: dx [s/T, b, h], the gradient of the output (made here in a chunk with the loss), becomes
 * the gradient of the input. */
void stage_backward(stage *s, int chunk, int64_t microbatch, tensor dx);
/* Submits the weight gradient that the microbatch's backward left out (schedule_defers). */
void stage_backward_weight(stage *s, int64_t microbatch);

/* Returns the next buffer; the queue waits until it is free. The caller sets last_use. */
boundary_buffer *boundary_next(boundary *b, queue *q);
