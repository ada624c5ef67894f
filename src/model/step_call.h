/* Arguments of a step, and the workspace of a rank's steps. */
#pragma once
#include "model/attention.h"
#include "model/experts.h"
#include "model/family.h"
#include "model/fp8.h"
#include "parallel/imitation.h"

enum { LATE_READS = 16 };
/* Workspace of a stage. All layers and microbatches share its buffers: a writer waits for the readers. */
typedef struct workspace {
    const bench_case *given;
    const family *family;
    rank_extents extents;
    queues queues;
    sequence_parallel tensor;
    group *context[PIECES]; /* ordered by their first and by their second pieces (attention.h) */
    param_table *params;
    unsigned again;                   /* bit per step of a layer that runs again in backward */
    const layer_step *still_gathered; /* the last gathering step, if it runs again: its input is still gathered */
    tensor gathered, d_gathered; /* [s, b, h]: sequence-gathered activation and gradient; absent on one tensor rank */
    tensor partial, parts;       /* [s, b, h]: row-parallel product; all ranks' products of own strips */
    tensor gradient[SLOTS_MOST]; /* buffers of the slots that have one */
    tensor rope;                 /* for the kind `rotation`: [s, rotated width / 2, 2] F32: cosine, sine */
    context_attention attention; /* for the kind `causal_attention` */
    mixture experts;             /* for the kind `routing`; its groups are set before open */
    fp8_state fp8;
    int64_t microbatch; /* current microbatch */
    struct {
        const void *data, *scale;
        mark until;
    } late_read[LATE_READS];
    int next_late_read;
} workspace;

/* Protects x and its scale, which late weight gradients read on another queue, until that mark. Call workspace_await
 * before writing x on queue q. The compute queue waits for the oldest of more than LATE_READS. */
void workspace_protect(workspace *w, tensor x, mark until);
void workspace_await(const workspace *w, queue *q, tensor x);

/* Takes the buffers' memory and fills tables; the members before the buffers must be set. Waits for the set-up. */
void workspace_open(workspace *w, arena *a);

/* Returns `out` with the buffers of the tensor ranks' partial sums. */
scattered_sum workspace_sum(const workspace *w, tensor out);

/* The residual stream between layers: x + delta, added by the next norm; x alone if delta is absent. [s/T, b, h] */
typedef struct {
    tensor x, delta;
} residual;

typedef struct step_call {
    workspace *work;
    const layer_step *step;
    int64_t layer;         /* of the model; NO_LAYER for the head */
    tensor *slot;          /* of this microbatch and layer */
    residual in;           /* forward: input of the layer */
    bool again;            /* forward runs again, in backward */
    int64_t part;          /* current part of the experts (expert_parts) */
    tensor dx;             /* backward: gradient of the residual stream */
    access_mode dx_access; /* WRITE: the gradient begins here */
    gathering input;       /* backward: gathered input of the next step whose kind gathers */
} step_call;

/* Returns an operand of the step, or its gradient. */
tensor step_read(const step_call *c, int place);
tensor step_made(const step_call *c, int place);
tensor step_d_read(const step_call *c, int place);
tensor step_d_made(const step_call *c, int place);

/* Returns the first table row that the step names. step_borrow borrows the rows (model/param.h), or none: absent. */
int step_row(const step_call *c, param_rows rows);
/* Returns the columns that the product sums over: forward, all in one run; backward, one run per table row. */
column_runs step_runs(const step_call *c, weight_use use, int64_t columns);
tensor step_borrow(const step_call *c, param_rows rows, weight_use use);
void step_return(const step_call *c, param_rows rows, weight_use use);

/* The step's contribution to the gradient of rows. step_contribute returns where it goes, and how; call it once before
 * submitting to queue q, and step_contributed after submitting. */
typedef struct {
    tensor gradient;
    access_mode access;
} contribution;
contribution step_contribute(const step_call *c, param_rows rows, queue *q);
void step_contributed(const step_call *c, param_rows rows, queue *q);

/* Begins to gather the input of step s, whose backward comes later, over the tensor ranks. The transfer waits for
 * `after` and overlaps what is submitted meanwhile. */
void step_gather_input(step_call *c, const layer_step *s, mark after);

/* Submits one half of a column-parallel product's backward. The weight gradient comes after step_gather_input. */
void column_input_gradient(step_call *c);
void column_weight_gradient(step_call *c);

/* Waits for the readers of the FP8 values that the step makes. fp8_encode_made makes those that its operations have not
 * made, and amaxes. Without FP8, both do nothing. */
void fp8_await_made(step_call *c);
void fp8_encode_made(step_call *c);
/* Return the FP8 values that the operation of a step with `encodes` makes: of its output at a place, or of the gradient
 * of its input at a place. Absent if no product needs them or the operation cannot make them. */
encoding fp8_made_encoding(const step_call *c, int place);
encoding fp8_read_encoding(step_call *c, int place);
/* Returns this rank's input of product s, in FP8 if it multiplies FP8. */
tensor fp8_input(const step_call *c, const layer_step *s);
/* Returns the buffer `whole` with the format and scale of the part, which is gathered into it. */
tensor fp8_gathered(tensor part, tensor whole);
/* Rounds the gradient dy of this product's output to FP8, unless the operation that made dy did. fp8_gradient returns
 * the FP8 values, or dy without FP8. */
void fp8_encode_gradient(step_call *c, tensor dy);
tensor fp8_gradient(const step_call *c, tensor dy);
/* Borrows the weight W [n, k], or those of the own experts [experts n, k]. FP8 values are [n, k] or [experts, n, k],
 * contiguous along the dimension that the product sums over. */
tensor fp8_weight(const step_call *c, param_rows rows, weight_use use);
/* Factors of dW = a b with the rows of all tensor ranks: dy^T and x in FP8; without FP8, `values`. */
typedef struct {
    tensor a, b;
} factors;
factors fp8_factors(step_call *c, tensor x, tensor dy, factors values);

/* Runs one step, after late weight gradients that still read what it writes (layer.c). */
void step_forward(step_call *c);
void step_backward(step_call *c);
/* Runs all steps of a layer of the model, with the slots of this microbatch (layer.c). Returns the layer's output. */
residual layer_forward(workspace *w, int64_t layer, tensor *slot, residual in);
/* Runs the backward of a layer. dx, the gradient of its output, becomes that of its input. */
void layer_backward(workspace *w, int64_t layer, tensor *slot, tensor dx);
