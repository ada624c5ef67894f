/* Shadow: computing operations of a machine run once more by the host, on copies of their operands, and compared. It
 * synchronizes before and after every one of them; transfers pass. */
#pragma once
#include "machine/kind.h"
#include "machine/op.h"
#include "machine/op_file.h"

typedef struct shadow shadow;
/* home: the machine that is shadowed. files: "check-3", the middle of the names of mismatches' files; empty: none is
 * written. */
shadow *shadow_open(op_home home, const char *files);
void shadow_set(shadow *s, shadow_mode mode);
void shadow_step(shadow *s, int64_t step); /* a step begins */
void shadow_close(shadow *s);
/* Is it to be shadowed? Asked once for every operation, in order. */
bool shadow_wants(shadow *s, const op *o);
/* Before: all that the operation waits for is complete. After: it is complete itself. */
void shadow_before(shadow *s, const op *o, tensor_reader *read, void *from);
void shadow_after(shadow *s, const op *o, tensor_reader *read, void *from);
const shadow_report *shadow_read(const shadow *s);

/* Of an operation with operands in host memory, or none. */
shadow_limit shadow_limit_of(const op *o, const op_home *home, int which);

/* What the sampled shadow takes of an operation (shadow_part.c): such a part of its operands that the host makes the
 * same part of its results. compared: the operands that say something; a sum over what the part leaves out says
 * nothing. */
typedef struct {
    op op;
    bool compared[OP_OPERANDS];
} shadow_part;

shadow_part shadow_part_whole(const op *o);
/* The part that the kind's rule samples; of a kind without sample the whole, or, if it spans more than 256 MiB, nothing
 * at all (no operands). draws counts what was drawn so far, so that one part follows another. */
shadow_part shadow_part_of(const op *o, uint32_t *draws);
