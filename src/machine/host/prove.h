/* Proof of an operation's access list: WRITE operands are filled with NaN before it, READ operands must be unchanged
 * after. */
#pragma once
#include "machine/op.h"

typedef struct {
    uint64_t sum[OP_OPERANDS]; /* of READ operands, before */
} access_proof;
void access_proof_before(access_proof *p, const op *o);
/* Ends the run, naming the operation and the operand, if a READ operand changed. */
void access_proof_after(access_proof *p, const op *o);
