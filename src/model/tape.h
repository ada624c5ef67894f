/* The tape: what forward leaves for backward, in slots of a layer. The family gives slots a meaning (model/family.h);
 * here a slot is a number. A slot that is not kept is one buffer for all layers. The others come from two pools, shared
 * by all chunks and microbatches of the stage, as large as the schedule needs at once. */
#pragma once
#include "base/arena.h"
#include "machine/op/tensor.h"
#include "plan/model/chunks.h"
#include "plan/schedule/schedule.h"

/* The layer's input is the residual stream. It may be received from another stage, so it has a separate pool. */
enum { SLOT_NONE, SLOT_INPUT, SLOTS_MOST = 32 };
/* With FP8, also the FP8 values of a slot that products multiply. */
enum { TAPE_SLOTS = 2 * SLOTS_MOST };
static inline int slot_fp8(int slot) { return SLOTS_MOST + slot; }
typedef uint64_t slot_set; /* bit per slot */
static inline slot_set slot_bit(int slot) { return (slot_set)1 << slot; }

typedef struct {
    const chunk_extent *chunk; /* [chunks] of the stage */
    int chunks;
    const schedule *order;
    int slots;                /* slots of a layer; slot numbers are below it */
    tensor shape[TAPE_SLOTS]; /* data ignored; absent: a layer has no such slot */
    slot_set kept;
} tape_layout;

/* Numbers of free places; the next one is on top. */
typedef struct {
    int64_t *number, free, size;
} pool;

/* Places of a chunk for the microbatches in flight: microbatch m uses place m mod window. */
typedef struct {
    int64_t layers, window;
    bool has_input;      /* the first layer's x, or the head's input */
    int64_t *input;      /* [window]: number of x in its pool */
    int64_t *record, *x; /* [window, layers]: numbers in the pools; x of the first layer is the input */
} tape_chunk;

typedef struct {
    int chunks, slots;
    tape_chunk *chunk;
    pool inputs, records;
    tensor *x;      /* [inputs.size] residual streams */
    tensor *record; /* [records.size, slots]: slots of a layer; the input among them is its x */
} tape;

/* Takes memory for what the schedule has in flight. */
void tape_open(tape *t, const tape_layout *layout, arena *a);
void tape_close(tape *t);
/* Begins a step: every place is free. */
void tape_step(tape *t);

/* Takes a place for the chunk's input: before its forward, or earlier to receive into it. */
void tape_take_input(tape *t, int chunk, int64_t microbatch);
tensor tape_input(const tape *t, int chunk, int64_t microbatch);
/* Takes places for the chunk's layers. */
void tape_take(tape *t, int chunk, int64_t microbatch);
/* Returns the [slots] of a layer, counted in the chunk. */
tensor *tape_layer(const tape *t, int chunk, int64_t microbatch, int64_t layer);
/* Frees the places after the microbatch's backward. */
void tape_release(tape *t, int chunk, int64_t microbatch);
/* Returns whether the stage receives what this action works on; then its place is taken one action ahead. */
bool tape_received(const chunk_extent *chunk, const schedule_action *a);
