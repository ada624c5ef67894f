/* What a machine on paper notes of its operations, so that a machine can be made ready before it runs them. */
#pragma once
#include "machine/op/op.h"
#include "machine/queue/hazard.h"

/* origin.name and a transfer's group may be gone by the time a note is read: the op lacks both. */
enum { NOTE_NAME = 48 };
typedef struct {
    op op; /* addresses are those on paper */
    char name[NOTE_NAME];
    int64_t times[PHASES];    /* number of submissions in the last step, by phase */
    int64_t of_layers[PHASES]; /* those of them that a layer makes */
} op_note;

typedef struct {
    size_t scratch[HAZARD_QUEUES]; /* bytes that the operations of each queue need */
    op_note *note;                 /* one for each kind, formats and shapes, in the order of submission; owned */
    int notes, capacity;
    int64_t step;    /* the step that the notes' times count: the last one */
    uint64_t places; /* of all collectives' operands, in their order: ranks that lie alike have the same number */
} preparation;

void preparation_free(preparation *p);
/* Returns whether two operations take the same kernel: kind, formats, shapes, strides and alignment. */
bool ops_alike(const op *a, const op *b);
