/* Operations are values: what to compute, on which tensors, and who asked. Fillers are in kernels.h and fabric.h. */
#pragma once
#include "base/numeric.h"
#include "machine/tensor.h"

typedef enum {
    /* what a step submits: the kinds a deck's fault can name */
    OP_MATMUL, OP_EMBEDDING_FORWARD, OP_EMBEDDING_BACKWARD, OP_NORM_FORWARD, OP_NORM_BACKWARD, OP_ROPE_FORWARD,
    OP_ROPE_BACKWARD, OP_ATTENTION_FORWARD, OP_ATTENTION_BACKWARD, OP_ATTENTION_MERGE, OP_ADD, OP_SWIGLU_FORWARD, OP_SWIGLU_BACKWARD,
    OP_CROSS_ENTROPY, OP_ADAMW, OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_REDUCE, OP_EXCHANGE,
    OP_FILL, OP_COPY, OP_SUM, OP_TOKENS, OP_STEP_BEGIN, OP_SQUARE_SUM, OP_STEP_CLIP,
    /* set-up, and what planted faults do */
    OP_INITIALIZE, OP_SCALE, OP_FLIP,
    OP_KINDS
} op_kind;
const char *op_kind_name(op_kind kind);
/* The kind of that name, or OP_KINDS. */
op_kind op_kind_named(const char *name);
/* Does it move data between ranks? (all_gather, reduce_scatter, all_reduce, exchange) */
bool op_is_transfer(op_kind kind);

/* WRITE: every element is written, none is read. UPDATE: read and written. */
typedef enum { READ, WRITE, UPDATE } access_mode;
typedef struct { tensor tensor; access_mode access; } operand;

typedef enum { PHASE_SETUP, PHASE_BATCH, PHASE_FORWARD, PHASE_BACKWARD, PHASE_RECOMPUTE, PHASE_GRADIENT, PHASE_OPTIMIZER, PHASES } phase;
const char *phase_name(phase p);
typedef struct { int64_t step, microbatch; int chunk, layer; phase phase; const char *name; } origin;   /* -1: none */

/* The step's scalars, one F64 tensor: the only numbers that vary from step to step. */
enum { SCALAR_STEP, SCALAR_LEARNING_RATE, SCALAR_CORRECTION1, SCALAR_CORRECTION2, SCALAR_CLIP, SCALAR_LOSS, SCALAR_NORM, STEP_SCALARS };
/* Exact sums of squares: four 32-bit limbs of a 128-bit integer in units of 2^-80, each in a U64, and a flag (not finite). */
enum { SQUARE_LIMBS = 5 };

typedef struct { float scale; bool causal; } attention_args;                /* causal: query i sees keys 0 .. i; else all */
typedef struct { float epsilon; } norm_args;
typedef struct { int64_t first, valid; } vocabulary_args;                   /* first row held here; unpadded vocabulary */
typedef enum { CROSS_ENTROPY_PARTIAL, CROSS_ENTROPY_FINISH } cross_entropy_part;
typedef struct { cross_entropy_part part; int64_t first, valid; float gradient_scale; } cross_entropy_args;
/* rows, columns: of the unpadded logical tensor. */
typedef struct { uint32_t seed, key; float scale; int64_t first_row, first_column, rows, columns; } initialize_args;
typedef enum { STREAM_UNIFORM, STREAM_RAMP, STREAM_ZEROS } stream_kind;
/* Local position p is position first + p of the sequence, in the second half of the local ones skip more. */
typedef struct { stream_kind stream; bool labels_next; uint32_t seed, vocabulary; int64_t first_sample, first, skip; } tokens_args;
typedef struct { double maximum, minimum; int64_t warmup, total; bool constant, from_zero; float beta1, beta2; } step_begin_args;
typedef struct { double clip, tokens; } step_clip_args;                     /* clip 0: none; tokens of the global batch */
typedef struct { double value; } fill_args;
typedef struct { double factor; } scale_args;
typedef struct { int64_t index; } flip_args;
enum { OP_OPERANDS = 12 };
struct group;
typedef struct { struct group *group; uint64_t sequence; int16_t peer[OP_OPERANDS]; } fabric_args;    /* peer: exchange only */

typedef struct {
    op_kind kind;
    int operands;
    operand operand[OP_OPERANDS];
    union {
        attention_args attention; norm_args norm; vocabulary_args vocabulary; cross_entropy_args cross_entropy;
        initialize_args initialize; tokens_args tokens; adamw_rule adamw; step_begin_args step_begin;
        step_clip_args step_clip; fill_args fill; scale_args scale; flip_args flip; fabric_args fabric;
    } args;
    origin origin;
} op;

/* Floating-point operations that the mathematics needs: 2mnk for products, causal half for attention; 0 for the rest. */
double op_flops(const op *o);
/* Bytes its operands span. */
double op_bytes(const op *o);
/* "matmul layers.3.down (step 2, microbatch 1, layer 3, backward)": for messages; returns text. */
const char *op_describe(const op *o, char *text, size_t length);
