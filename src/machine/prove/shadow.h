/* The shadow: the host repeats computing operations on copies of their operands and compares. It synchronizes. */
#pragma once
#include "machine/prove/op_file.h"

/* FULL: compares every operation. SAMPLED: compares in each step a part (shadow_part.c) of one operation of each name,
 * kind and phase: in the first step the first one, later one drawn from the step number. It checks matrix products as a
 * whole instead: the first one of each form, in the first step. */
typedef enum { SHADOW_OFF, SHADOW_FULL, SHADOW_SAMPLED } shadow_mode;
typedef struct {
    int64_t operations, elements; /* compared */
    int64_t left_out;             /* not compared: too large to copy, and of a kind without parts */
    char first_left_out[200];
    double worst;
    char worst_operation[200];      /* worst: largest error, in units of its limit */
    int64_t failed;                 /* operations that differ; the next three are about the first */
    char sentence[512];             /* operation, operand, element, values */
    char file[128], unwritten[256]; /* file to run it again; or why it was not written */
    int64_t products, comparisons;  /* products checked whole, and the comparisons of that check */
    double worst_comparison;        /* its limit is signed_sum_limit */
    char worst_product[200];
    int rank, product_rank; /* ranks with the sentence and the worst product, in a report on all ranks */
} shadow_report;

typedef struct shadow shadow;
/* Opens a shadow. files: part of the names of files of mismatches, for example "check-3"; empty: no files. */
shadow *shadow_open(op_home home, const char *files);
void shadow_set(shadow *s, shadow_mode mode);
void shadow_step(shadow *s, int64_t step); /* begins a step */
void shadow_close(shadow *s);
/* Returns whether to shadow the operation. Call it once for every operation, in order. */
bool shadow_wants(shadow *s, const op *o);
/* Copies and repeats the operation. Call it when all that the operation waits for is complete. */
void shadow_before(shadow *s, const op *o, tensor_reader *read, void *from);
/* Compares the results. Call it when the operation is complete. */
void shadow_after(shadow *s, const op *o, tensor_reader *read, void *from);
const shadow_report *shadow_read(const shadow *s);

/* Returns the limit of operand `which`. The operands lie in host memory, or have no data. */
shadow_limit shadow_limit_of(const op *o, const op_home *home, int which);

/* The part of an operation that the sampled shadow compares (shadow_part.c): the host computes a part of the results
 * from a part of the operands. compared: false for READ operands and for sums over more than the part. */
typedef struct {
    op op;
    bool compared[OP_OPERANDS];
} shadow_part;

shadow_part shadow_part_whole(const op *o);
/* Returns the part that the rule of the kind samples. Without a rule, returns the whole, or no operands if they have
 * more than 256 MiB. draws: number of draws so far, so that parts differ. */
shadow_part shadow_part_of(const op *o, uint32_t *draws);

/* Freivalds' check of a matrix product of any size (R. Freivalds, Probabilistic machines can use less running time,
 * IFIP 1977). It compares C x with A (B x), where x are random signs, in blocks of 256 columns of C. It costs 1/256 of
 * the product's work and reads each operand once. The host computes in double, from copies, without the library under
 * test (machine/host/products/product_check.c). */
enum { PRODUCT_BLOCK = 256 };

/* A product that has run. o: matmul or grouped_matmul. read: reads its operands, in slabs of 64 MiB. before: from
 * product_before. draw: number of the check, so that each has different signs. */
typedef struct {
    const op *o;
    op_home home;
    const void *before;
    uint32_t draw;
    tensor_reader *read;
    void *from;
} checked_product;

/* A comparison covers a row of C in one block or, if the columns of C have no gaps, a column in 256 rows. worst: the
 * largest |C x - A (B x)|, in units of the root of the sum of b^2 over the row (signed_sum_limit, limits.h). */
typedef struct {
    int64_t comparisons;
    double worst;
} product_finding;

/* Returns a copy of C as it is before a product is added to it, which the caller frees; NULL if C is only written. */
void *product_before(const op *o, tensor_reader *read, void *from);
/* Checks a product. C is complete, A and B are unchanged. The signs are drawn here, so that C cannot depend on them. */
product_finding product_compare(const checked_product *p);
