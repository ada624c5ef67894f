/* op/: operations as values: kind, tensors, arguments and origin. kernels.h and fabric.h make them, submit.h submits
 * them, op_rules.c describes each kind. */
#pragma once
#include "machine/op/activity.h"
#include "machine/op/args.h"
#include "machine/op/tensor.h"

/* WRITE: all elements are written, none is read. UPDATE: read and written. */
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
} origin; /* numbers: -1 if none */

/* An operation. error: NULL, or why no kernel can run it; submit then ends the program with this reason. */
typedef struct {
    op_kind kind;
    int operands;
    operand operand[OP_OPERANDS];
    op_args args;
    origin origin;
    const char *error;
} op;

/* The options of a machine that select the kernel. part: the operands are slices of an operation's. */
typedef struct {
    bool cuda, deterministic, own_attention, part;
    int transfer_multiprocessors;
} op_home;

/* Returns the bytes that the operands span. */
double op_bytes(const op *o);
/* Writes, for messages, "matmul layers.3.down (step 2, microbatch 1, layer 3, backward)". Returns text. */
enum { OP_TEXT = 200 };
const char *op_describe(const op *o, char *text, size_t length);

/* Returns the operation as an activity, without group and elements. */
activity op_activity(op_kind kind, const origin *at);

/* ---- the rule of each kind, for fillers, tally and shadow ---- */

/* The largest difference between a result and its reference on the host: roundings x the larger magnitude + absolute x
 * the largest reference of the tensor + product x the reference of a product before anything is added to it. exact: no
 * difference. */
typedef struct {
    bool exact;
    double roundings, absolute;
    double product;
} shadow_limit;

/* Returns the limit of operand `which`. The operands lie in host memory, or have no data. */
typedef shadow_limit op_limit(const op *o, const op_home *home, int which);

/* How encode_op encodes an output: the FP8 values replace it (with UPDATE it is then only read), or accompany it. */
typedef enum { ENCODED_NEVER, ENCODED_INSTEAD, ENCODED_ALSO } encoding_rule;

/* The rule of an operand. name: as in kernels.h. axes: one letter for each of the first dimensions or, after a '*', of
 * the last ones. Axes with the same letter have the same length, or a multiple of it (query heads per key head); 'e'
 * stands for all elements of any shape. chosen: the filler or its caller chooses the access. */
typedef struct {
    const char *name, *axes;
    access_mode access;
    bool chosen, optional;
    encoding_rule encoded;
} operand_rule;

/* The shadow's sample of a large operation: `length` positions of an axis. */
typedef struct {
    char axis;
    int length;
} axis_sample;

/* The rule of a kind. passes: how often a ring algorithm passes the whole first operand of a collective around. limit:
 * NULL if machines agree bit for bit. sample: if it is empty, the shadow takes the whole operation. */
enum { RULE_OPERANDS = 13, RULE_AXES = 2 };
typedef struct {
    operand_rule operand[RULE_OPERANDS + 1];
    int passes;
    double (*flops)(const op *o);
    op_limit *limit;
    axis_sample sample[RULE_AXES];
} op_rule;
extern const op_rule op_rules[OP_KINDS];

/* Returns the index of the operands that encode an output (kernels.h, encoding), or -1 if there are none. */
enum { ENCODING_CODES, ENCODING_TRANSPOSED, ENCODING_SCALE, ENCODING_AMAX, ENCODING_COUNTS, ENCODING_OPERANDS };
int op_encoding(const op *o);
/* An operation that encodes, split into several. copied: copies the input of a rotation to scratch; other kinds: no
 * operands. values: computes the output, in scratch (encoded_bytes) if FP8 values replace it. codes: quantizes it. */
typedef struct {
    op copied, values, codes;
} encoded_parts;
size_t encoded_bytes(const op *o);
encoded_parts encoded_parts_of(const op *o, void *scratch);

/* Returns the floating-point operations of the mathematics: 2mnk for products, half for causal attention; else 0. */
double op_flops(const op *o);
