/* What an operation of each kind must be: its operands' names, and whether one that comes from a file is what a filler
 * makes. */
#pragma once
#include "machine/op.h"

/* How many operands a kind has, absent ones included; 0: transfers, whose number varies. */
int op_operand_count(op_kind kind);
/* "out", "dq": as kernels.h calls it. */
const char *op_operand_name(op_kind kind, int which);

/* NULL, or why no filler makes such an operation. It submits nothing. Operands are present and lie in memory, no two of
 * one operand's elements at one place; nothing else is asked of them. */
const char *op_judge(const op *o);

/* Of fillers (machine/filler.h): o lacks what it needs. Ends the program, or is noted if o is being judged. */
void op_lacks(const op *o, const char *what);
/* Of op_submit: o is being judged, not run. */
bool op_is_judged(const op *o);
