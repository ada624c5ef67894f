/* What a machine on paper notes of its operations, so that a machine can be made ready before it runs them. */
#pragma once
#include "machine/op/op.h"
#include "machine/queue/hazard.h"

/* origin.name and a transfer's group may be gone by the time a note is read: the op lacks both. */
enum { NOTE_NAME = 48, COUNTED_STEP = 1 };
typedef struct {
    op op; /* addresses are those on paper */
    char name[NOTE_NAME];
    int64_t times[PHASES], of_layers[PHASES]; /* submissions in step COUNTED_STEP; those of them that layers make */
} op_note;

typedef struct {
    size_t scratch[HAZARD_QUEUES]; /* bytes that the operations of each queue need */
    op_note *note;                 /* one for each kind, formats and shapes, in the order of submission; owned */
    int notes, capacity;
    struct submissions *order; /* all of them (submissions.h), if the machine was asked to keep them; owned */
    uint64_t places; /* of all collectives' operands, in their order: ranks that lie alike have the same number */
} preparation;

/* Returns how often a step submits the operation. */
static inline int64_t note_times(const op_note *n)
{
    int64_t times = 0;
    for (int p = 0; p < PHASES; p++) times += n->times[p];
    return times;
}
void preparation_free(preparation *p);
/* Returns whether two operations take the same kernel: kind, formats, shapes, strides and alignment. */
bool ops_alike(const op *a, const op *b);
