/* What an operation of each kind is: one rule a kind, folded by fillers, tally and shadow. */
#pragma once
#include "machine/op.h"

/* How far a machine's results may be from the host's (shadow_limits.c): |x - reference| <= roundings units in the last
 * place of the larger + absolute x largest |reference| of the tensor; exact: no difference at all. */
typedef struct {
    bool exact;
    double roundings, absolute;
} shadow_limit;

/* Of one operand of an operation whose operands lie in host memory, or nowhere. */
typedef shadow_limit op_limit(const op *o, const op_home *home, int which);
op_limit limit_of_product, limit_of_embedding_backward, limit_of_norm_forward, limit_of_norm_backward,
    limit_of_attention_forward, limit_of_attention_backward, limit_of_attention_merge, limit_of_cross_entropy,
    limit_of_scalars, limit_of_doubles;

/* name: as kernels.h calls it. axes: a letter for each of the first dimensions, or after a '*' of the last ones;
 * operands with the same letter count the same thing, one perhaps in multiples of another (query heads of a key head),
 * and 'e' counts all elements, whatever the shape. chosen: the access is the filler's, or its caller's. */
typedef struct {
    const char *name, *axes;
    access_mode access;
    bool chosen, optional;
} operand_rule;

/* The shadow's sample of a large operation: so many along an axis. */
typedef struct {
    char axis;
    int length;
} axis_sample;

/* passes: of a collective: how often the data travels around a ring of the group; whole: the operand that holds all
 * ranks' parts. limit: NULL if two machines agree bit for bit. sample: of kinds without, the shadow takes all. */
enum { RULE_OPERANDS = 9, RULE_AXES = 2 };
typedef struct {
    operand_rule operand[RULE_OPERANDS + 1];
    int passes, whole;
    double (*flops)(const op *o);
    op_limit *limit;
    axis_sample sample[RULE_AXES];
} op_rule;
extern const op_rule op_rules[OP_KINDS];

/* Floating-point operations that the mathematics needs: 2mnk for products, causal half for attention; 0 for the rest.
 */
double op_flops(const op *o);
