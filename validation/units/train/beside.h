/* Transfers that run during computing: counts the operations in the spans of transfers. */
#pragma once
#include "trained.h"

enum { BESIDE_RANKS = 8 };
/* Kinds of overlap: a transfer whose span encloses an operation. The host polls a transfer after every operation, so it
 * was in flight during that operation. If computing had to wait for the transfer at once, its span could never enclose
 * an operation, whatever the timing. */
typedef enum {
    TENSOR, /* a transfer of a layer around a product of that layer */
    REDUCED,
    GATHERED, /* a bucket reduced around backward; gathered around anything */
    FORWARD_IN,
    FORWARD_OUT,
    BACKWARD_IN,
    BACKWARD_OUT, /* between stages, around computing of another microbatch */
    KEYS_FORWARD,
    KEYS_BACKWARD,
    KEY_GRADIENTS,  /* of their layer: around attention; around products of backward; around attention backward */
    WEIGHTS_BEHIND, /* no transfer: a weight gradient ran after an operation submitted later */
    PLACES
} overlap_place;
static const char *const place_names[PLACES] = {
    "tensor",       "gradients", "weights",          "forward in",        "forward out",     "backward in",
    "backward out", "keys",      "keys in backward", "gradients of keys", "weight gradients"
};
/* Numbers of operations, and the waits of each rank in the last step. */
typedef struct {
    double of[PLACES], waits[BESIDE_RANKS];
} seen;

/* Returns the place of a transfer of the context queue. */
static inline overlap_place key_place(const span *x, const span *k)
{
    bool gathers = x->kind == OP_ALL_GATHER;
    if (gathers && k->kind == OP_ATTENTION_FORWARD && k->origin.phase == x->origin.phase) return KEYS_FORWARD;
    if (gathers && k->kind == OP_MATMUL && x->origin.phase == PHASE_BACKWARD) return KEYS_BACKWARD;
    return !gathers && k->kind == OP_ATTENTION_BACKWARD ? KEY_GRADIENTS : PLACES;
}

static inline bool is_pass(phase p)
{
    return p == PHASE_BATCH || p == PHASE_FORWARD || p == PHASE_BACKWARD || p == PHASE_RECOMPUTE;
}

/* Returns the place of transfer x, which encloses operation k of the compute queue; PLACES if none. */
static inline overlap_place place_of(const trainer *t, const span *x, const span *k)
{
    queue *of = machine_queue_at(t->machine, x->queue);
    bool layer = k->origin.layer == x->origin.layer && k->origin.microbatch == x->origin.microbatch &&
                 k->origin.step == x->origin.step;
    if (of == t->queues.tensor && k->kind == OP_MATMUL && layer) return TENSOR;
    if (of == t->queues.gradient && x->kind == OP_ALL_GATHER) return GATHERED;
    if (of == t->queues.gradient && x->origin.phase == PHASE_GRADIENT && k->origin.phase == PHASE_BACKWARD)
        return REDUCED;
    if (of == t->queues.context && layer) return key_place(x, k);
    for (int i = 0; i < LINKS; i++)
        if (of == t->queues.link[i] && is_pass(k->origin.phase) && k->origin.microbatch != x->origin.microbatch)
            return FORWARD_IN + (overlap_place)i;
    return PLACES;
}

/* Returns whether a gate-up weight gradient ran after the norm's backward, which was submitted later. */
static inline bool is_behind(const span *weight, const span *k)
{
    const origin *w = &weight->origin, *o = &k->origin;
    return w->name && o->name && !strcmp(w->name, "gate_up_gradient") && !strcmp(o->name, "d_mlp_norm") &&
           o->step == w->step && o->microbatch == w->microbatch && o->layer == w->layer && k->end <= weight->begin;
}

/* Counts the operations during transfers in the last two steps. */
static inline void count_beside(const trainer *t, void *result)
{
    seen *n = result;
    int64_t count;
    const span *s = machine_spans(t->machine, &count);
    n->waits[world_rank()] = (double)machine_waits(t->machine);
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; s[i].origin.step >= t->steps - 2 && k < count; k++) {
            if (!op_is_transfer(s[i].kind)) n->of[WEIGHTS_BEHIND] += is_behind(&s[i], &s[k]);
            else if (s[i].begin < s[k].begin && s[k].end < s[i].end &&
                     machine_queue_at(t->machine, s[k].queue) == t->queues.compute) {
                overlap_place at = place_of(t, &s[i], &s[k]);
                if (at != PLACES) n->of[at] += 1.0;
            }
        }
}
