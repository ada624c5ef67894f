/* The tape. */
#include "model/tape.h"
#include "base/fail.h"
#include <stdlib.h>

#define SLOT(name) (1u << SLOT_##name)
#define STEP(name) (1u << STEP_##name)

/* What each mask drops, and the steps that bring it back. Y1 and Y2 are consumed by the next norm: never kept. */
static const struct { unsigned dropped, again; } masks[] = {
    [RECOMPUTE_NONE] = { SLOT(Y1) | SLOT(Y2), 0 },
    [RECOMPUTE_ATTENTION] = { SLOT(Y1) | SLOT(Y2) | SLOT(O) | SLOT(LSE), STEP(ATTENTION) },
    [RECOMPUTE_MLP] = { SLOT(Y1) | SLOT(Y2) | SLOT(GATE_UP) | SLOT(A), STEP(GATE_UP) | STEP(SWIGLU) },
    [RECOMPUTE_ATTENTION_MLP] = { ~(SLOT(X) | SLOT(QKV) | SLOT(Y1)), STEP(NORM1) | STEP(ATTENTION) | STEP(NORM2) | STEP(GATE_UP) | STEP(SWIGLU) },
    [RECOMPUTE_LAYER] = { ~SLOT(X), STEP(NORM1) | STEP(QKV) | STEP(ATTENTION) | STEP(PROJECTION) | STEP(NORM2) | STEP(GATE_UP) | STEP(SWIGLU) },
};

static tensor placed(tensor shape, arena *a)
{
    shape.data = arena_take(a, ACTIVATIONS, tensor_span(&shape));
    return shape;
}

void tape_open(tape *t, int64_t layers, int64_t live, recompute_mask mask, const tensor shape[SLOTS], arena *a)
{
    *t = (tape){ .layers = layers, .live = live, .again = masks[mask].again };
    t->slot = malloc((size_t)(live * layers) * SLOTS * sizeof *t->slot);
    if (!t->slot) FAIL("no memory for the tape of %lld layers", (long long)layers);
    for (int s = 0; s < SLOTS; s++) {
        bool dropped = masks[mask].dropped >> s & 1u;
        tensor shared = dropped ? placed(shape[s], a) : tensor_none();
        for (int64_t i = 0; i < live * layers; i++) t->slot[i * SLOTS + s] = dropped ? shared : placed(shape[s], a);
    }
}

void tape_close(tape *t) { free(t->slot); }

tensor *tape_layer(const tape *t, int64_t microbatch, int64_t layer)
{
    return t->slot + (microbatch % t->live * t->layers + layer) * SLOTS;
}
