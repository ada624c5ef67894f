/* A stage: this rank's share of the network, its buffers and its two verbs. The mathematics is in layer.c and ends.c;
 * none of it knows how many ranks there are beyond the conjugate pairs. */
#pragma once
#include "model/attention.h"
#include "model/param.h"
#include "model/tape.h"
#include "parallel/conjugate.h"

/* One per live microbatch. */
typedef struct {
    tensor tokens, labels;                  /* [s, b] I32, all positions */
    tensor x, normed, rstd;                 /* final norm: its input, output [s/T, b, h] and 1/rms */
} microbatch_state;

typedef struct {
    const bench_case *given;
    mesh *mesh;
    lanes lanes;
    param_table params;
    tape tape;
    microbatch_state *state;                /* [live] */
    tensor rope;                            /* [s, d/2, 2] F32: cosine, sine */
    tensor embedded;                        /* [s, b, h]: embedding before its scatter; absent on one tensor rank */
    tensor gathered, d_gathered;            /* [s, b, h]: sequence-gathered activation and gradient */
    tensor partial;                         /* [s or 2 s/T, b, h] F32: row-parallel products before their sum (conjugate.h) */
    tensor dx, dn;                          /* [s/T, b, h]: residual's gradient, norm output's gradient */
    tensor d_qkv, d_o, d_a, d_gate_up;      /* gradients of the slots of those names */
    attention_ring ring;
    tensor logits;                          /* [s, b, V/T], in place their gradient */
    tensor loss_part, loss_parts;           /* [s, b, 3], [T, s, b, 3] F32 */
    tensor loss;                            /* [microbatches b] F64: per sequence, summed over positions */
    tensor scalars;                         /* [STEP_SCALARS] F64 */
    int64_t data_ranks, data_rank;          /* whose samples: sample = (m data_ranks + data_rank) b + row */
} stage;

void stage_open(stage *s, const bench_case *c, mesh *m, const lanes *l, int64_t live, arena *a);
void stage_close(stage *s);
/* Fills the rope table. */
void stage_initialize(stage *s);
void stage_forward(stage *s, int chunk, int64_t microbatch);
void stage_backward(stage *s, int chunk, int64_t microbatch);

/* layer.c: one transformer layer. x_in, y_in: residual stream and the output to add to it (y_in absent: nothing). */
void layer_forward(stage *s, int64_t microbatch, int64_t layer, tensor x_in, tensor y_in);
/* dx: gradient of the layer's output, replaced by that of its input. */
void layer_backward(stage *s, int64_t microbatch, int64_t layer);

/* ends.c: embedding, head and loss. */
void embed_forward(stage *s, int64_t microbatch);
void embed_backward(stage *s, int64_t microbatch);
void head_forward(stage *s, int64_t microbatch, tensor x_in, tensor y_in);
void head_backward(stage *s, int64_t microbatch);
