/* Operations are values: what to compute, on which tensors, and who asked. Fillers are in kernels.h and fabric.h. */
#pragma once
#include "machine/args.h"
#include "machine/tensor.h"

typedef enum {
    /* what a step submits: the kinds a deck's fault can name */
    OP_MATMUL,
    OP_EMBEDDING_FORWARD,
    OP_EMBEDDING_BACKWARD,
    OP_NORM_FORWARD,
    OP_NORM_BACKWARD,
    OP_ROPE_FORWARD,
    OP_ROPE_BACKWARD,
    OP_ATTENTION_FORWARD,
    OP_ATTENTION_BACKWARD,
    OP_ATTENTION_MERGE,
    OP_ADD,
    OP_SWIGLU_FORWARD,
    OP_SWIGLU_BACKWARD,
    OP_CROSS_ENTROPY,
    OP_ADAMW,
    OP_ALL_GATHER,
    OP_REDUCE_SCATTER,
    OP_ALL_REDUCE,
    OP_EXCHANGE,
    OP_FILL,
    OP_COPY,
    OP_SUM,
    OP_TOKENS,
    OP_STEP_BEGIN,
    OP_SQUARE_SUM,
    OP_STEP_CLIP,
    /* set-up, and what planted faults do */
    OP_INITIALIZE,
    OP_SCALE,
    OP_FLIP,
    OP_KINDS
} op_kind;
const char *op_kind_name(op_kind kind);
/* The kind of that name, or OP_KINDS. */
op_kind op_kind_named(const char *name);
/* Does it move data between ranks? (all_gather, reduce_scatter, all_reduce, exchange) */
bool op_is_transfer(op_kind kind);

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

typedef struct {
    op_kind kind;
    int operands;
    operand operand[OP_OPERANDS];
    op_args args;
    origin origin;
} op;

/* Floating-point operations that the mathematics needs: 2mnk for products, causal half for attention; 0 for the rest.
 */
double op_flops(const op *o);
/* Bytes its operands span. */
double op_bytes(const op *o);
/* "matmul layers.3.down (step 2, microbatch 1, layer 3, backward)": for messages, OP_TEXT bytes; returns text. */
enum { OP_TEXT = 200 };
const char *op_describe(const op *o, char *text, size_t length);
