/* The zig-zag split of a sequence over C context ranks: rank c holds the pieces c and 2C - 1 - c of 2C equal pieces,
 * one after the other, so that the positions of every rank see equally many keys. */
#pragma once
#include "machine/op/fabric.h"

typedef struct {
    int64_t length, first, skip; /* local positions; place of the first; gap between the halves */
} zigzag;
zigzag zigzag_of(const group *context, int64_t sequence);
/* Returns the place of local position p in the sequence. */
int64_t zigzag_position(const zigzag *z, int64_t p);
