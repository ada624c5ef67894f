/* One operation by itself: its operands moved together, and values for what it reads. */
#pragma once
#include "machine/queue/machine.h"

/* Returns the operation with its operands close together at the beginning of an arena on paper, and their bytes. Each
 * keeps its alignment; operands that overlap overlap as before. */
op alone_on_paper(const op *noted, size_t *bytes);

/* Fills what the operation reads: normal numbers, FP8 values of normal numbers scaled to the format's largest, valid
 * indices. seed: FILLER_BYTES of the machine, of which FP8 values are made. */
enum { FILLER_BYTES = 8 << 20 };
typedef struct {
    queue *queue;
    machine_kind kind;
    char *seed;
    int64_t vocabulary;
} filler;
void filler_fill(const filler *f, const op *o);
