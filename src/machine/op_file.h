/* One operation as a file: what it is in readable lines, then the bytes of its operands. A mismatch is written as one and run
 * again from it. */
#pragma once
#include "machine/op.h"

/* An operation whose operands lie in host memory of its own. */
typedef struct { op op; void *memory[OP_OPERANDS]; char name[64]; } op_copy;

/* The operation with operands in host memory, their gaps included; READ and UPDATE operands are filled by `read` (called with the
 * caller's `from`), WRITE ones with NaN bytes. Operands that lie at the same place stay at the same place. */
typedef void op_reader(void *from, void *to, tensor t);
op_copy op_copy_take(const op *o, op_reader *read, void *from);
void op_copy_free(op_copy *c);

/* Writes the file whole; false, with the reason, if that fails. Transfers have no file. */
bool op_file_write(const char *path, const op *o, char *reason, size_t length);
/* False, with the reason, if it is no such file or not the one that was written. The caller frees the copy. */
bool op_file_read(const char *path, op_copy *c, char *reason, size_t length);
