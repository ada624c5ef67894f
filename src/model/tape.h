/* The tape: what forward leaves for backward, as named slots. A slot that the recompute mask drops is one shared buffer
 * whose producer is submitted again before backward needs it. The others come from two pools, shared by all chunks and
 * microbatches of the stage: as many as the schedule ever has in flight at once. */
#pragma once
#include "base/arena.h"
#include "machine/tensor.h"
#include "plan/model/chunks.h"
#include "plan/schedule/schedule.h"

/* Slots of one layer. s local positions (s/T between the tensor ranks), S all of them, b micro-batch rows. */
typedef enum {
    SLOT_X,       /* [s/T, b, h]  input of the attention norm (the residual stream) */
    SLOT_N1,      /* [s/T, b, h]  its output */
    SLOT_RSTD1,   /* [s/T b] F32 */
    SLOT_QKV,     /* [s, b, (heads + 2 kv_heads)/T d]  queries and keys rotated */
    SLOT_O,       /* [s, b, heads/T d]  attention output */
    SLOT_LSE,     /* [b, heads/T, s] F32 */
    SLOT_Y1,      /* [s/T, b, h]  projection of it */
    SLOT_X2,      /* [s/T, b, h]  x + y1: input of the MLP norm */
    SLOT_N2,      /* [s/T, b, h] */
    SLOT_RSTD2,   /* [s/T b] F32 */
    SLOT_GATE_UP, /* [s, b, 2 ffn/T] */
    SLOT_A,       /* [s, b, ffn/T]  silu(gate) * up */
    SLOT_Y2,      /* [s/T, b, h]  output of the MLP, added by the next norm */
    SLOTS
} tape_slot;

/* Forward of a layer is these steps in order; backward runs again the ones that the mask names. */
typedef enum {
    STEP_NORM1,
    STEP_QKV,
    STEP_ATTENTION,
    STEP_PROJECTION,
    STEP_NORM2,
    STEP_GATE_UP,
    STEP_SWIGLU,
    STEP_DOWN,
    LAYER_STEPS
} layer_step;

/* Numbers of free places, the next one on top. */
typedef struct {
    int64_t *number, free, size;
} pool;

/* One chunk's places for the microbatches in flight: microbatch m uses place m mod window. */
typedef struct {
    int64_t layers, window;
    bool has_input;      /* the first layer's x, or what the head is given */
    int64_t *input;      /* [window] number in the pool of x */
    int64_t *record, *x; /* [window, layers] numbers in the pools; x of the first layer is the input */
    tensor *slot;        /* [window, layers, SLOTS] */
} tape_chunk;

typedef struct {
    unsigned again; /* bit per layer_step: submitted again in backward */
    int chunks;
    tape_chunk *chunk;
    pool inputs, records;
    tensor *x;      /* [inputs.size] residual streams */
    tensor *record; /* [records.size, SLOTS] the other slots of a layer */
} tape;

/* shape[SLOTS]: data ignored. Takes memory for what the schedule of a stage with these chunks has in flight. */
void tape_open(tape *t, const chunk_extent *chunk, int chunks, const schedule *s, recompute_mask mask,
               const tensor shape[SLOTS], arena *a);
void tape_close(tape *t);
/* A step begins: every place is free. */
void tape_step(tape *t);

/* A place for the chunk's input; before its forward, or earlier to receive into it. */
void tape_take_input(tape *t, int chunk, int64_t microbatch);
tensor tape_input(const tape *t, int chunk, int64_t microbatch);
/* Places for its layers. */
void tape_take(tape *t, int chunk, int64_t microbatch);
/* [SLOTS] of a layer, counted in the chunk. */
tensor *tape_layer(const tape *t, int chunk, int64_t microbatch, int64_t layer);
/* After its backward. */
void tape_release(tape *t, int chunk, int64_t microbatch);
/* Does the stage receive what this action of its schedule works on? Then its place is taken one action ahead. */
bool tape_received(const chunk_extent *chunk, const schedule_action *a);
