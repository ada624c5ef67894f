/* Shadow: the host repeats computing operations on copies of their operands and compares. It synchronizes each time. */
#pragma once
#include "machine/prove/op_file.h"

/* FULL: every operation is compared with the host. SAMPLED: in each step a part (shadow_part.c) of one operation of
 * every name, kind and phase, at full shape: the first in the first step, later one that is drawn from the step's
 * number. Also, in the first step, the first matrix product of every form as a whole. */
typedef enum { SHADOW_OFF, SHADOW_FULL, SHADOW_SAMPLED } shadow_mode;
/* What the shadow found. */
typedef struct {
    int64_t operations, elements; /* compared */
    int64_t left_out;             /* sampled, but too large to copy and of no part that stands for itself */
    char first_left_out[200];
    double worst;
    char worst_operation[200]; /* largest error in units of its tolerance */
    int64_t failed;
    char sentence[512];             /* operations that differ; of the first: operation, operand, element, values */
    char file[128], unwritten[256]; /* that one, to run again; or why it could not be written */
    int64_t products, comparisons;  /* products checked whole, and the comparisons of that check */
    double worst_comparison;        /* signed_sum_limit says how large it may be */
    char worst_product[200];
    int rank, product_rank; /* that have the sentence and the worst product, if the reports of ranks were gathered */
} shadow_report;

typedef struct shadow shadow;
/* files: "check-3", the middle of the names of mismatches' files; empty: none is written. */
shadow *shadow_open(op_home home, const char *files);
void shadow_set(shadow *s, shadow_mode mode);
void shadow_step(shadow *s, int64_t step); /* a step begins */
void shadow_close(shadow *s);
/* Returns whether it is to be shadowed. Asked once for every operation, in order. */
bool shadow_wants(shadow *s, const op *o);
/* Before: all that the operation waits for is complete. After: it is complete itself. */
void shadow_before(shadow *s, const op *o, tensor_reader *read, void *from);
void shadow_after(shadow *s, const op *o, tensor_reader *read, void *from);
const shadow_report *shadow_read(const shadow *s);

/* The limit of one operand; the operands lie in host memory, or nowhere. */
shadow_limit shadow_limit_of(const op *o, const op_home *home, int which);

/* What the sampled shadow takes of an operation (shadow_part.c): parts of its operands of which the host makes the same
 * part of its results. compared: all but sums over what the part leaves out. */
typedef struct {
    op op;
    bool compared[OP_OPERANDS];
} shadow_part;

shadow_part shadow_part_whole(const op *o);
/* The part that the kind's rule samples; of a kind without sample the whole, or, if it spans more than 256 MiB, nothing
 * at all (no operands). draws counts what was drawn so far, so that one part follows another. */
shadow_part shadow_part_of(const op *o, uint32_t *draws);

/* Freivalds' check of a matrix product, at any size (R. Freivalds, Probabilistic machines can use less running time,
 * IFIP 1977): C x is compared with A (B x), where x are random signs, in blocks of 256 columns of C. It costs 1/256 of
 * the product's work, and reads each operand once. All is computed in double on the host, from copies, and never by the
 * library that made the product (machine/host/products/product_check.c). */
enum { PRODUCT_BLOCK = 256 };

/* A product that has run: o, matmul or grouped_matmul, and what reads its operands, in slabs of 64 MB. before: what
 * product_before returned. draw: numbers the checks, so that each has signs of its own. */
typedef struct {
    const op *o;
    op_home home;
    const void *before;
    uint32_t draw;
    tensor_reader *read;
    void *from;
} checked_product;

/* A comparison is a row of C in one block; of a C whose columns have no gaps, a column in 256 rows. worst: the largest
 * |C x - A (B x)|, in units of the root of the sum of b^2 over the block's row (signed_sum_limit of limits.h). */
typedef struct {
    int64_t comparisons;
    double worst;
} product_finding;

/* Returns a copy of C as it is before a product is added to it, which the caller frees; NULL if C is only written. */
void *product_before(const op *o, tensor_reader *read, void *from);
/* Compares. The signs are drawn here, after C is complete; A and B are still as they were multiplied. */
product_finding product_compare(const checked_product *p);
