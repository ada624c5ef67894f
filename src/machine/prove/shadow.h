/* Shadow: computing operations of a machine run once more by the host, on copies of their operands, and compared. It
 * synchronizes before and after every one of them; transfers pass. */
#pragma once
#include "machine/op/op.h"
#include "machine/prove/op_file.h"
#include "machine/queue/kind.h"

typedef struct shadow shadow;
/* home: the machine that is shadowed. files: "check-3", the middle of the names of mismatches' files; empty: none is
 * written. */
shadow *shadow_open(op_home home, const char *files);
void shadow_set(shadow *s, shadow_mode mode);
void shadow_step(shadow *s, int64_t step); /* a step begins */
void shadow_close(shadow *s);
/* Is it to be shadowed? Asked once for every operation, in order. */
bool shadow_wants(shadow *s, const op *o);
/* Before: all that the operation waits for is complete. After: it is complete itself. */
void shadow_before(shadow *s, const op *o, tensor_reader *read, void *from);
void shadow_after(shadow *s, const op *o, tensor_reader *read, void *from);
const shadow_report *shadow_read(const shadow *s);

/* Of an operation with operands in host memory, or none. */
shadow_limit shadow_limit_of(const op *o, const op_home *home, int which);

/* What the sampled shadow takes of an operation (shadow_part.c): such a part of its operands that the host makes the
 * same part of its results. compared: the operands that say something; a sum over what the part leaves out says
 * nothing. */
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
