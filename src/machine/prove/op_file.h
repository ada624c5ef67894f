/* One operation in a file: a title with the digest of the rest, readable lines, the copy and the bytes of its operands.
 * A mismatch is written to such a file, so that it can be run again. The file keeps what selects the kernel: options,
 * addresses modulo 256 and twins, but not the algorithm that trials chose for a product. */
#pragma once
#include "machine/op/op.h"

/* A copy of an operation, with operands in host memory. offset: address of each on its machine, modulo OP_OFFSETS;
 * twin: the earlier operand with the same memory, or -1. */
typedef struct {
    op op;
    op_home home;
    int offset[OP_OPERANDS], twin[OP_OPERANDS];
    void *memory[OP_OPERANDS];
    char name[64];
} op_copy;
enum { OP_OFFSETS = 256 };

/* Copies an operation and its operands; dense: without gaps. `read` copies READ and UPDATE operands, the others become
 * NaN. Twins share memory. The caller frees the copy. */
op_copy op_copy_take(const op *o, bool dense, tensor_reader *read, void *from);
void op_copy_free(op_copy *c);

/* Writes a new file. Returns false, with the reason, if that fails or the file exists. Transfers cannot be written. */
bool op_file_write(const char *path, const op_copy *c, char *reason, size_t length);
/* Reads c, which the caller frees. Returns false, with the reason, if the file is invalid or of another program. */
bool op_file_read(const char *path, op_copy *c, char *reason, size_t length);
