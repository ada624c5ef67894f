/* Measured operations and transfers of a sheet, and how a sheet names them. */
#pragma once
#include "machine/op/op.h"
#include "plan/sheet/sheet.h"
#include <stdio.h>

/* Bytes that an operation moves: updated operands both ways; of a table of the vocabulary the rows that tokens name. */
double operation_bytes(const op *o);
/* Flops, or bytes where it has none. */
double operation_work(const op *o);
/* Write the key of a line of the sheet: "matmul f32[512x256],f32[512x512]", "all_gather 16 8"; return text.
 * An exchange is between two ranks, however many its group has. */
const char *operation_key(const op *o, char text[OPERATION_KEY]);
const char *transfer_key(op_kind kind, int ranks, int within, char text[OPERATION_KEY]);

/* The line of an operation that took so many seconds, and how a line begins with "op" or "transfer" in a sheet. */
listed_time listed_of(const op *o, double seconds);
void listed_write(FILE *to, const char *word, const listed_time *x);

/* Seconds of the same operation; of one with other shapes (same: false) at the rate of the nearest shapes, or of any of
 * that kind and those formats; of a transfer interpolated by its bytes. NaN: the sheet has none. */
double listed_operation(const machine_sheet *s, const op *o, bool *same);
double listed_transfer(const machine_sheet *s, op_kind kind, int ranks, int within, double bytes);
