/* What the sampled shadow takes of an operation: such a part of its operands that the host makes the same part of its
 * results. */
#pragma once
#include "machine/op.h"

/* compared: the operands that say something; a sum over what the part leaves out says nothing. */
typedef struct {
    op op;
    bool compared[OP_OPERANDS];
} shadow_part;

shadow_part shadow_part_whole(const op *o);
/* The part that the kind's rule samples; of a kind without sample the whole, or, if it spans more than 256 MiB, nothing
 * at all (no operands). draws counts what was drawn so far, so that one part follows another. */
shadow_part shadow_part_of(const op *o, uint32_t *draws);
