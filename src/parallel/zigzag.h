/* The zig-zag split of a sequence over C context ranks: of 2C equal pieces rank c holds the pieces c and 2C - 1 - c,
 * one after the other, so that the positions of every rank see equally many keys. */
#pragma once
#include "machine/op/fabric.h"

/* length: local positions. */
typedef struct {
    int64_t length, first, skip;
} zigzag;
zigzag zigzag_of(const group *context, int64_t sequence);
/* Where local position p stands in the sequence: first + p, in the second half skip more. One rank holds all of them.
 */
int64_t zigzag_position(const zigzag *z, int64_t p);
