/* Listed times: operations and transfers that a sheet has measured, and their names (keys). */
#pragma once
#include "machine/op/op.h"
#include "plan/sheet/sheet.h"
#include <stdio.h>

/* Returns the bytes that an operation moves. An operand that is added to counts twice. Embeddings count only the
 * rows of the tokens. */
double operation_bytes(const op *o);
/* Returns the flops of an operation, or its bytes if it has no flops. */
double operation_work(const op *o);
/* Write a key: "matmul f32[512x256],f32[512x512]" or "all_gather 16 8". Return text. ranks: of the group; an exchange
 * counts 2. within: ranks of the group in one domain. */
const char *operation_key(const op *o, char text[OPERATION_KEY]);
const char *transfer_key(op_kind kind, int ranks, int within, char text[OPERATION_KEY]);

/* Returns the listed time of an operation. */
listed_time listed_of(const op *o, double seconds);
/* Writes a line of a sheet without its end. word: "op" or "transfer". */
void listed_write(FILE *to, const char *word, const listed_time *x);

/* Returns the listed seconds of an operation. If its shapes are not listed, sets *same to false and returns seconds at
 * the rate of the nearest shapes, or of any shapes of that kind and those formats. Returns NaN if there are none. */
double listed_operation(const machine_sheet *s, const op *o, bool *same);
/* Returns the seconds of a transfer, interpolated by bytes, or NaN if there are none. */
double listed_transfer(const machine_sheet *s, op_kind kind, int ranks, int within, double bytes);
