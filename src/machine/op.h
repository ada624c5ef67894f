/* Operations are values: what to compute, on which tensors, and who asked. kernels.h and fabric.h make them, submit.h
 * has them run; op_rules.h says what one of each kind is. */
#pragma once
#include "base/op_kinds.h"
#include "machine/args.h"
#include "machine/tensor.h"

/* WRITE: every element is written, none is read. UPDATE: read and written. */
typedef enum { READ, WRITE, UPDATE } access_mode;
typedef struct {
    tensor tensor;
    access_mode access;
} operand;

typedef enum {
    PHASE_SETUP,
    PHASE_BATCH,
    PHASE_FORWARD,
    PHASE_BACKWARD,
    PHASE_RECOMPUTE,
    PHASE_GRADIENT,
    PHASE_OPTIMIZER,
    PHASES
} phase;
const char *phase_name(phase p);
typedef struct {
    int64_t step, microbatch;
    int chunk, layer;
    phase phase;
    const char *name;
} origin; /* -1: none */

/* lacks: NULL, or why no kernel could run it; submit ends the program with that. */
typedef struct {
    op_kind kind;
    int operands;
    operand operand[OP_OPERANDS];
    op_args args;
    origin origin;
    const char *lacks;
} op;

/* What decides, beside the operation, which kernel runs: the machine's options. part: of the operands only a part is at
 * hand (machine/shadow_part.c). */
typedef struct {
    bool cuda, deterministic, own_attention, part;
    int transfer_multiprocessors;
} op_home;

/* Bytes its operands span. */
double op_bytes(const op *o);
/* "matmul layers.3.down (step 2, microbatch 1, layer 3, backward)": for messages, OP_TEXT bytes; returns text. */
enum { OP_TEXT = 200 };
const char *op_describe(const op *o, char *text, size_t length);
