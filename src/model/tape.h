/* The tape: what forward leaves for backward, as named slots. A slot that the recompute mask drops is one shared buffer
 * whose producer is submitted again before backward needs it. */
#pragma once
#include "base/arena.h"
#include "machine/tensor.h"
#include "plan/bench_case.h"

/* Slots of one layer. s local positions (s/T between the tensor ranks), S all of them, b micro-batch rows. */
typedef enum {
    SLOT_X,         /* [s/T, b, h]  input of the attention norm (the residual stream) */
    SLOT_N1,        /* [s/T, b, h]  its output */
    SLOT_RSTD1,     /* [s/T b] F32 */
    SLOT_QKV,       /* [s, b, (heads + 2 kv_heads)/T d]  queries and keys rotated */
    SLOT_O,         /* [s, b, heads/T d]  attention output */
    SLOT_LSE,       /* [b, heads/T, s] F32 */
    SLOT_Y1,        /* [s/T, b, h]  projection of it */
    SLOT_X2,        /* [s/T, b, h]  x + y1: input of the MLP norm */
    SLOT_N2,        /* [s/T, b, h] */
    SLOT_RSTD2,     /* [s/T b] F32 */
    SLOT_GATE_UP,   /* [s, b, 2 ffn/T] */
    SLOT_A,         /* [s, b, ffn/T]  silu(gate) * up */
    SLOT_Y2,        /* [s/T, b, h]  output of the MLP, added by the next norm */
    SLOTS
} tape_slot;

/* Forward of a layer is these steps in order; backward runs again the ones that the mask names. */
typedef enum { STEP_NORM1, STEP_QKV, STEP_ATTENTION, STEP_PROJECTION, STEP_NORM2, STEP_GATE_UP, STEP_SWIGLU, STEP_DOWN, LAYER_STEPS } layer_step;

typedef struct {
    int64_t layers, live;           /* microbatches between forward and backward */
    unsigned again;                 /* bit per layer_step: submitted again in backward */
    tensor *slot;                   /* [live][layers][SLOTS], owned */
} tape;

/* shape[SLOTS]: data ignored. Takes memory for live microbatches of `layers` layers. */
void tape_open(tape *t, int64_t layers, int64_t live, recompute_mask mask, const tensor shape[SLOTS], arena *a);
void tape_close(tape *t);
/* microbatch m uses live slot m mod live. */
tensor *tape_layer(const tape *t, int64_t microbatch, int64_t layer);
