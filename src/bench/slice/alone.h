/* One operation alone: its operands placed together, and values for the operands that it reads. */
#pragma once
#include "machine/queue/machine.h"

/* Returns the operation with its operands placed together at the start of an arena on paper. *bytes: their size. Each
 * operand keeps its alignment, and overlapping operands overlap in the same way. */
op alone_on_paper(const op *original, size_t *bytes);

/* Values for operands: normal numbers, FP8 values of scaled normal numbers, and valid indices. seed: FILLER_BYTES of
 * machine memory, from which FP8 values are made. */
enum { FILLER_BYTES = 8 << 20 };
typedef struct {
    queue *queue;
    machine_kind kind;
    char *seed;
    int64_t vocabulary;
} filler;
/* Fills the operands that the operation reads. */
void filler_fill(const filler *f, const op *o);
