/* What a step is given, and what the steps of a rank work with. */
#pragma once
#include "model/attention.h"
#include "model/experts.h"
#include "model/family.h"
#include "model/fp8.h"
#include "parallel/imitation.h"

enum { READS_BEHIND = 16 };
/* Of one stage. Its buffers are shared by all layers and microbatches: who writes one waits for those who read it. */
typedef struct workspace {
    const bench_case *given;
    const family *family;
    rank_extents extents;
    queues queues;
    sequence_parallel tensor;
    group *context[PIECES]; /* in the order in which their first, and their second pieces lie (attention.h) */
    param_table *params;
    unsigned again;              /* bit per step of a layer that runs again in backward */
    const layer_step *left;      /* of those, the one whose gathered input is still there when backward begins */
    tensor gathered, d_gathered; /* [s, b, h]: sequence-gathered activation and gradient; absent on one tensor rank */
    tensor partial, parts;       /* [s, b, h]: row-parallel products, and all ranks' of own strips, before their sum */
    tensor gradient[SLOTS_MOST]; /* buffers of the slots that own one */
    tensor rope;                 /* of the kind `rotation`: [s, rotated width / 2, 2] F32: cosine, sine */
    context_attention attention; /* of the kind `causal_attention` */
    mixture experts;             /* of the kind `routing`, its groups given before */
    fp8_state fp8;
    int64_t microbatch; /* the one at work */
    struct {
        const void *data, *scale;
        mark until;
    } lent[READS_BEHIND];
    int lendings;
} workspace;

/* Weight gradients run behind, on a queue of their own: what they read may not be written before they have. `lend` says
 * that x, and its scale, is read until that mark; whoever writes it next, on queue q, has called `await`. Of more than
 * READS_BEHIND lendings the compute queue waits for the oldest. */
void workspace_lend(workspace *w, tensor x, mark until);
void workspace_await(const workspace *w, queue *q, tensor x);

/* Takes the buffers' memory, fills tables; what stands before them is given. Synchronizes (set-up). */
void workspace_open(workspace *w, arena *a);

/* `out` as what the tensor ranks' partial sums add up to. */
scattered_sum workspace_sum(const workspace *w, tensor out);

/* The residual stream as it is handed on: x + delta, added by the norm that comes next; delta absent: x. [s/T, b, h] */
typedef struct {
    tensor x, delta;
} residual;

typedef struct step_call {
    workspace *work;
    const layer_step *step;
    int64_t layer;         /* of the model; NO_LAYER: the head's */
    tensor *slot;          /* of this microbatch and layer */
    residual in;           /* forward: what the layer is given */
    bool again;            /* forward, in backward */
    int64_t part;          /* of the experts, which is at work (expert_parts) */
    tensor dx;             /* backward: gradient of the residual stream */
    access_mode dx_access; /* WRITE: it begins here */
    gathering input;       /* backward: of the next step that gathers */
} step_call;

/* Operands of the step, and where their gradients lie. */
tensor step_read(const step_call *c, int place);
tensor step_made(const step_call *c, int place);
tensor step_d_read(const step_call *c, int place);
tensor step_d_made(const step_call *c, int place);

/* Rows of the parameter table that the step names, borrowed (model/param.h); absent where it names none. */
int step_row(const step_call *c, param_rows rows);
/* Columns that the product sums over: of its input, or of the gradient of what it makes, one run a row of the table. */
column_runs step_runs(const step_call *c, weight_use use, int64_t columns);
tensor step_borrow(const step_call *c, param_rows rows, weight_use use);
void step_return(const step_call *c, param_rows rows, weight_use use);

/* The step's contribution to their gradient: where it goes, and how, asked once before it is submitted to queue q; then
 * that it was. */
typedef struct {
    tensor gradient;
    access_mode access;
} contribution;
contribution step_contribute(const step_call *c, param_rows rows, queue *q);
void step_contributed(const step_call *c, param_rows rows, queue *q);

/* Backward: begins the gathering of what step s, whose backward is to come, wants from all tensor ranks, when `after`
 * is done: beside what is submitted meanwhile. */
void step_gather_input(step_call *c, const layer_step *s, mark after);

/* The halves of a column-parallel product's backward, the second after step_gather_input. */
void column_input_gradient(step_call *c);
void column_weight_gradient(step_call *c);

/* fp8_steps.c: codes of what products multiply; where the case has none, the values themselves. Made: those of what the
 * step made, behind it, and before it the wait for who still reads them. */
void fp8_await_made(step_call *c);
void fp8_encode_made(step_call *c);
/* Codes that a step of a kind that encodes makes in its own operations: of what it makes at a place; of the gradient of
 * what it reads there. Absent where no product wants them. */
encoding fp8_made_encoding(const step_call *c, int place);
encoding fp8_read_encoding(step_call *c, int place);
/* What product s reads; rows of the own part. */
tensor fp8_input(const step_call *c, const layer_step *s);
/* Where such parts of all tensor ranks are gathered: in the memory of `whole`. */
tensor fp8_gathered(tensor part, tensor whole);
/* The gradient dy of what this product made becomes codes; which they are. */
void fp8_encode_gradient(step_call *c, tensor dy);
tensor fp8_gradient(const step_call *c, tensor dy);
/* Borrows the weight W [n, k], of experts [own n, k]; codes are [n, k], [own, n, k], contiguous along what the use sums
 * over. */
tensor fp8_weight(const step_call *c, param_rows rows, weight_use use);
/* dW = a b, of rows of all tensor ranks: dy^T and x, or `values`. */
typedef struct {
    tensor a, b;
} factors;
factors fp8_factors(step_call *c, tensor x, tensor dy, factors values);

/* layer.c: one step, behind the weight gradients that still read what it writes. */
void step_forward(step_call *c);
void step_backward(step_call *c);
/* layer.c: all steps of a layer of the model, with the slots of this microbatch. Returns what the layer hands on. */
residual layer_forward(workspace *w, int64_t layer, tensor *slot, residual in);
/* dx: gradient of what it handed on, replaced by that of its input. */
void layer_backward(workspace *w, int64_t layer, tensor *slot, tensor dx);
