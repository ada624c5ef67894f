/* The notes of a machine on paper about its operations, with which a real machine prepares before the first step. */
#pragma once
#include "machine/op/op.h"
#include "machine/queue/hazard.h"

/* One distinct operation. op.origin.name is empty and the group NULL: both may be freed before the note is read. */
enum { NOTE_NAME = 48, COUNTED_STEP = 1 };
typedef struct {
    op op; /* with paper addresses */
    char name[NOTE_NAME];
    int64_t count[PHASES], layer_count[PHASES]; /* submissions in step COUNTED_STEP; those with a layer */
} op_note;

typedef struct {
    size_t scratch[HAZARD_QUEUES]; /* bytes of scratch that each queue needs */
    op_note *note;                 /* [notes] one for each distinct operation (ops_alike), by first submission; owned */
    int notes, capacity;
    struct submissions *order; /* all submissions, if machine_options.keeps_order; owned */
    uint64_t address_hash;     /* of the operands of collectives: equal on ranks with the same layout of memory */
} preparation;

/* Returns how often a step submits the operation. */
static inline int64_t note_count(const op_note *n)
{
    int64_t count = 0;
    for (int p = 0; p < PHASES; p++) count += n->count[p];
    return count;
}
void preparation_free(preparation *p);
/* Returns whether two operations use the same kernel: equal kind, formats, shapes, strides and alignment. */
bool ops_alike(const op *a, const op *b);
