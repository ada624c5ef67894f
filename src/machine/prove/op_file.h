/* One operation as a file: a title with the digest of all else, lines that say what it is, then what a program of the
 * same operations reads: the copy and the bytes of its operands. A mismatch is written as one and run again from it. It
 * keeps what decides which kernel runs: the machine's options, where operands lie relative to 256 bytes, which of them
 * share a place. Not kept is the library's algorithm that trials chose for a product: a machine that runs it again
 * chooses anew. */
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

/* The operation with operands in host memory, their gaps included or (dense) left out; READ and UPDATE operands are
 * filled by `read` (called with the caller's `from`), WRITE ones with NaN bytes. Twins stay twins. */
op_copy op_copy_take(const op *o, bool dense, tensor_reader *read, void *from);
void op_copy_free(op_copy *c);

/* Writes a new file whole; false, with the reason, if that fails or there is one of that name. Transfers have no file.
 */
bool op_file_write(const char *path, const op_copy *c, char *reason, size_t length);
/* False, with the reason, if it is no such file, not the one that was written, or of a program with other operations.
 * The caller frees the copy. */
bool op_file_read(const char *path, op_copy *c, char *reason, size_t length);
