/* op/: operations as values: what to compute, on which tensors, and who asked. kernels.h and fabric.h make them,
 * submit.h has them run; op_rules.c says what one of each kind is. */
#pragma once
#include "machine/op/activity.h"
#include "machine/op/args.h"
#include "machine/op/tensor.h"

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

/* The machine's options that decide which kernel runs. part: only a part of the operands is at hand (shadow_part.c). */
typedef struct {
    bool cuda, deterministic, own_attention, part;
    int transfer_multiprocessors;
} op_home;

/* Bytes its operands span. */
double op_bytes(const op *o);
/* "matmul layers.3.down (step 2, microbatch 1, layer 3, backward)": for messages, OP_TEXT bytes; returns text. */
enum { OP_TEXT = 200 };
const char *op_describe(const op *o, char *text, size_t length);

/* The operation as an activity, without group and size. */
activity op_activity(op_kind kind, const origin *at);

/* ---- what one of each kind is: one rule a kind, folded by fillers, tally and shadow ---- */

/* How far a machine's results may be from the host's (limits.h): |x - reference| <= roundings units in the last
 * place of the larger + absolute x largest |reference| of the tensor; exact: no difference at all. */
typedef struct {
    bool exact;
    double roundings, absolute;
    double product; /* of what is left without what the operation adds to a product: limits.h */
} shadow_limit;

/* The limit of one operand; the operands lie in host memory, or nowhere. */
typedef shadow_limit op_limit(const op *o, const op_home *home, int which);

/* Where encode_op puts the codes of an output: in its place, an updated one is then only read; or next to it. */
typedef enum { ENCODED_NOT, ENCODED_INSTEAD, ENCODED_BESIDE } encoding_rule;

/* name: as kernels.h calls it. axes: a letter for each of the first dimensions, or after a '*' of the last ones;
 * operands with the same letter count the same thing, one perhaps in multiples of another (query heads of a key head),
 * and 'e' counts all elements, whatever the shape. chosen: the access is the filler's, or its caller's. */
typedef struct {
    const char *name, *axes;
    access_mode access;
    bool chosen, optional;
    encoding_rule encoded;
} operand_rule;

/* The shadow's sample of a large operation: so many along an axis. */
typedef struct {
    char axis;
    int length;
} axis_sample;

/* passes: of a collective, whose first operand is all ranks' parts: how often they would go around a ring. limit: NULL
 * if two machines agree bit for bit. sample: of kinds without, the shadow takes all. */
enum { RULE_OPERANDS = 13, RULE_AXES = 2 };
typedef struct {
    operand_rule operand[RULE_OPERANDS + 1];
    int passes;
    double (*flops)(const op *o);
    op_limit *limit;
    axis_sample sample[RULE_AXES];
} op_rule;
extern const op_rule op_rules[OP_KINDS];

/* Where the operands of its codes begin (kernels.h, encoding), if it makes codes of an output; else -1. */
enum { ENCODING_CODES, ENCODING_TRANSPOSED, ENCODING_SCALE, ENCODING_AMAX, ENCODING_COUNTS, ENCODING_OPERANDS };
int op_encoding(const op *o);
/* Such an operation as several: what is rotated is copied into scratch (else `copied` has no operands), the values are
 * made there, in encoded_bytes, or where the operation leaves them, and quantize makes codes of them. */
typedef struct {
    op copied, values, codes;
} encoded_parts;
size_t encoded_bytes(const op *o);
encoded_parts encoded_parts_of(const op *o, void *scratch);

/* Floating-point operations of the mathematics: 2mnk for products, causal half for attention; 0 for the rest. */
double op_flops(const op *o);
