/* The tape: what forward leaves for backward, as slots of a layer. What a slot is the family says (model/family.h);
 * here it is a number. A slot that is not kept is one buffer for all layers. The others come from two pools, shared by
 * all chunks and microbatches of the stage: as many as the schedule ever has in flight at once. */
#pragma once
#include "base/arena.h"
#include "machine/op/tensor.h"
#include "plan/model/chunks.h"
#include "plan/schedule/schedule.h"

/* The layer's input is the residual stream, which may be received from another stage: it has a pool of its own. */
enum { SLOT_NONE, SLOT_INPUT, SLOTS_MOST = 32 };
/* Of FP8 also the codes of a slot that products multiply with. */
enum { TAPE_SLOTS = 2 * SLOTS_MOST };
static inline int slot_codes(int slot) { return SLOTS_MOST + slot; }
typedef uint64_t slot_set; /* bit per slot */
static inline slot_set slot_bit(int slot) { return (slot_set)1 << slot; }

typedef struct {
    const chunk_extent *chunk; /* of the stage */
    int chunks;
    const schedule *order;
    int slots;                /* of a layer; their numbers are below */
    tensor shape[TAPE_SLOTS]; /* data ignored; absent: a layer has no such slot */
    slot_set kept;
} tape_layout;

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
} tape_chunk;

typedef struct {
    int chunks, slots;
    tape_chunk *chunk;
    pool inputs, records;
    tensor *x;      /* [inputs.size] residual streams */
    tensor *record; /* [records.size, slots] a layer's; of them the input is the x that it took */
} tape;

/* Takes memory for what the schedule has in flight. */
void tape_open(tape *t, const tape_layout *layout, arena *a);
void tape_close(tape *t);
/* A step begins: every place is free. */
void tape_step(tape *t);

/* A place for the chunk's input; before its forward, or earlier to receive into it. */
void tape_take_input(tape *t, int chunk, int64_t microbatch);
tensor tape_input(const tape *t, int chunk, int64_t microbatch);
/* Places for its layers. */
void tape_take(tape *t, int chunk, int64_t microbatch);
/* [slots] of a layer, counted in the chunk. */
tensor *tape_layer(const tape *t, int chunk, int64_t microbatch, int64_t layer);
/* After its backward. */
void tape_release(tape *t, int chunk, int64_t microbatch);
/* Does the stage receive what this action of its schedule works on? Then its place is taken one action ahead. */
bool tape_received(const chunk_extent *chunk, const schedule_action *a);
