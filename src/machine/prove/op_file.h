/* One operation as a file: a title with the digest of the rest, lines for people, the copy and its operands' bytes. A
 * mismatch is written as one and run again from it. It keeps what decides which kernel runs: options, places relative
 * to 256 bytes, twins; but not a product's algorithm that trials chose. */
#pragma once
#include "machine/op/op.h"

/* An operation whose operands lie in host memory of its own. place: of each on its machine, modulo 256; twin: the
 * earlier operand that lies at the same place, or -1. */
typedef struct {
    op op;
    op_home home;
    int place[OP_OPERANDS], twin[OP_OPERANDS];
    void *memory[OP_OPERANDS];
    char name[64];
} op_copy;
enum { OP_PLACES = 256 };

/* Copies the operation, its operands into host memory, with their gaps or (dense) without; `read` fills READ and UPDATE
 * operands, NaN bytes the others. Twins stay twins. */
op_copy op_copy_take(const op *o, bool dense, tensor_reader *read, void *from);
void op_copy_free(op_copy *c);

/* Writes a new file whole; false, with the reason, if that fails or the file exists. Transfers have no file. */
bool op_file_write(const char *path, const op_copy *c, char *reason, size_t length);
/* Returns false, with the reason, if the file is none, was changed, or is of another program. The caller frees c. */
bool op_file_read(const char *path, op_copy *c, char *reason, size_t length);
