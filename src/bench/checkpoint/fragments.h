/* checkpoint/: the state of training in files, saved by one layout and loaded into any.
 *
 * What a rank owns of the state, cut into fragments, and where the same elements lie in the files of a checkpoint.
 * The state of an element is its master weight (the weight itself where that is its own) and two moments. */
#pragma once
#include "bench/checkpoint/sums.h"
#include "train/trainer.h"

typedef enum { STATE_WEIGHT, STATE_FIRST_MOMENT, STATE_SECOND_MOMENT, STATES } saved_state;
extern const char *const state_names[STATES];

/* A block: rows of a parameter that together have at most 2^32 elements, so that its sums find every swap of two
 * elements. logical: the parameter's number (model/param.h). Sums are over all of its elements, each once. All members
 * have 8 bytes: the index has a column of each. */
typedef struct {
    int64_t logical, block;           /* block: number within the parameter */
    int64_t first_row, rows, columns; /* of the parameter's whole matrix */
    int64_t bytes[STATES];            /* of an element */
    uint64_t sum[STATES][SUMS];
} saved_block;

/* Elements that follow one another in a rank's file. They are elements first to first + count - 1, row by row, of a
 * matrix of `columns` columns whose first element is element [first_row, first_column] of the parameter. */
typedef struct {
    int64_t logical, block, rank;
    int64_t first_row, first_column, columns, first, count;
    int64_t at[STATES]; /* bytes from the start of the rank's file */
    uint64_t sum[STATES][SUMS];
} saved_fragment;

/* A fragment that this rank owns. */
typedef struct {
    saved_fragment of; /* its places and sums are those of a file once they were written */
    const param *p;
    const bucket *b;
    int64_t in_shard; /* its first element, from the start of the bucket's shard */
    bool counts;      /* this rank is the first of those that own it, and writes it */
} own_fragment;
typedef struct {
    int64_t count;
    own_fragment *list; /* owned; fragments_free */
} own_fragments;

/* Lists the fragments of a trainer's share, without padding, bucket by bucket; t NULL: none. No two of them overlap. */
own_fragments fragments_of(const trainer *t);
void fragments_free(own_fragments *own);
/* Returns what this rank owns of a bucket's state: [shard_elements]. */
tensor state_of(const bucket *b, saved_state s);
/* Returns elements from to from + count - 1 of the fragment (counted from its own first), flat. */
tensor fragment_view(const own_fragment *o, saved_state s, int64_t from, int64_t count);

/* Rows of a block of a parameter with so many columns. */
int64_t block_rows(int64_t columns);
/* Adds the sums of such elements, which lie in x with `bytes` bytes each. whole: columns of the parameter. */
void fragment_sums(const saved_fragment *f, int64_t whole, int64_t from, int64_t count, const void *x, size_t bytes,
                   uint64_t sum[SUMS]);
/* Orders fragments by parameter, then by block. */
int fragment_order(const saved_fragment *a, const saved_fragment *b);

/* Elements that two fragments of one block share, in runs: `own` elements from the start of one, `saved` from the start
 * of the other. */
typedef struct {
    int64_t own, saved, count;
} shared_run;
/* The run after r within elements from to from + count - 1 of `own`; the first is that after { 0 }. False: no more. */
bool fragment_next_run(const saved_fragment *own, int64_t from, int64_t count, const saved_fragment *saved,
                       shared_run *r);
