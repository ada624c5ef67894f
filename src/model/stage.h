/* A stage: this rank's share of the network, its buffers and its verbs. The mathematics is in layer.c and ends.c;
 * none of it knows how many ranks there are beyond the conjugate pairs, nor who is before and behind it:
 * train/pipeline.c brings a chunk's input and takes its output. */
#pragma once
#include "model/attention.h"
#include "model/param.h"
#include "model/tape.h"
#include "parallel/conjugate.h"

/* One per microbatch in flight, of the chunk with the embedding or the loss; a rank has one such chunk at most, or the
 * only one. */
typedef struct {
    tensor tokens, labels;       /* [s, b] I32, local positions */
    tensor sum, x, normed, rstd; /* final norm: where its input is added up, its input, output [s/T, b, h] and 1/rms */
    tensor logits;               /* [s, b, V/T], in place their gradient */
} end_state;

/* Buffers that a chunk's output or gradient goes through on its way to another stage, used in turn. */
enum { STREAM_BUFFERS = 3 };
typedef struct {
    tensor tensor;
    mark busy;
} stream_buffer;
typedef struct {
    stream_buffer buffer[STREAM_BUFFERS];
    int count, next;
} stream;

typedef struct {
    const bench_case *given;
    mesh *mesh;
    queues queues;
    param_table params;
    chunk_extent *chunk; /* [chunks_per_stage] */
    tape tape;
    end_state *end;
    int64_t ends;                /* microbatch m uses end[m mod ends] */
    tensor rope;                 /* [s, d/2, 2] F32: cosine, sine */
    tensor embedded;             /* [s, b, h]: embedding before its scatter; absent on one tensor rank */
    tensor gathered, d_gathered; /* [s, b, h]: sequence-gathered activation and gradient */
    tensor partial;              /* [s or 2 s/T, b, h] F32: row-parallel products before their sum (conjugate.h) */
    stream outputs, gradients;   /* of chunks: [s/T, b, h]; gradients are received, replaced and sent on */
    tensor dx, dn;               /* [s/T, b, h]: residual's gradient (one of `gradients`), norm output's gradient */
    tensor d_qkv, d_o, d_a, d_gate_up; /* gradients of the slots of those names */
    attention_ring ring;
    tensor loss_part, loss_parts; /* [s, b, 3], [T, s, b, 3] F32 */
    tensor loss;    /* [microbatches b] F64: per sequence, summed over local positions; 0 without the loss */
    tensor scalars; /* [STEP_SCALARS] F64 */
    int64_t data_ranks, data_rank; /* whose samples: sample = (m data_ranks + data_rank) b + row */
} stage;

void stage_open(stage *s, const bench_case *c, mesh *m, const queues *l, const schedule *order, arena *a);
void stage_close(stage *s);
/* Fills the rope table. */
void stage_initialize(stage *s);
/* A step begins: nothing is in flight. */
void stage_step(stage *s);

/* Forward of a chunk, from tape_input (which the caller has taken and, unless the chunk has the embedding, filled) to
 * `output`, which a chunk with the loss does not have. */
void stage_forward(stage *s, int chunk, int64_t microbatch, tensor output);
/* Backward, from s->dx (filled by the caller unless the chunk has the loss), which becomes the gradient of the input.
 */
void stage_backward(stage *s, int chunk, int64_t microbatch);
/* The weight gradient that the microbatch's backward left out (schedule_defers). */
void stage_backward_weight(stage *s, int64_t microbatch);

/* The next buffer of a stream; the queue waits until it is free. The caller sets `busy` to the mark of its last use. */
stream_buffer *stream_next(stream *x, queue *q);

/* layer.c: one transformer layer, counted in its chunk. x_in, y_in: residual stream and the output to add to it (y_in
 * absent: nothing). */
void layer_forward(stage *s, int chunk, int64_t microbatch, int64_t layer, tensor x_in, tensor y_in);
/* dx: gradient of the layer's output, replaced by that of its input. */
void layer_backward(stage *s, int chunk, int64_t microbatch, int64_t layer);

/* ends.c: batch, embedding, head and loss. */
void make_batch(stage *s, int64_t microbatch);
/* x: where the embedding goes. */
void embed_forward(stage *s, int64_t microbatch, tensor x);
void embed_backward(stage *s, int64_t microbatch);
void head_forward(stage *s, int64_t microbatch, tensor x_in, tensor y_in);
void head_backward(stage *s, int64_t microbatch);
void head_weight_gradient(stage *s, int64_t microbatch);
