/* checkpoint/: the state of training in files, saved by one layout and loaded into any.
 *
 * What a rank owns of the state, cut into fragments, and where the same elements lie in the files of a checkpoint. An
 * element's state is its master weight (the weight itself where that is its own) and two moments. */
#pragma once
#include "bench/record/raw_file.h"
#include "train/trainer.h"

typedef enum { STATE_WEIGHT, STATE_FIRST_MOMENT, STATE_SECOND_MOMENT, STATES } saved_state;
extern const char *const state_names[STATES];

/* Two sums that find damage, modulo 2^64: of an element's bits as an unsigned integer, and of (place + 1) bits, where
 * its place is its number in the block. Partial sums of any partition add up, so a block has the same sums in every
 * layout. One element that changed changes SUM_BITS. Two unequal ones that changed places change SUM_PLACES by
 * (i - j)(a - b), which is not 0 modulo 2^64, since both factors are below 2^32. */
typedef enum { SUM_BITS, SUM_PLACES, SUMS } bit_sum;

/* Elements first to first + count - 1, row by row, of a matrix of `columns` columns whose first element is element
 * [first_row, first_column] of a parameter. logical: the parameter's number (model/param.h). block: which rows, of
 * which a block has as many as have 2^32 elements at most. They follow one another in the file of a rank, from byte
 * `at`. All members are integers of 8 bytes: the index is a table of them. */
typedef struct {
    int64_t logical, block, rank, first_row, first_column, columns, first, count;
    int64_t at[STATES], bytes[STATES]; /* bytes: of an element */
    uint64_t sum[STATES][SUMS];
} saved_fragment;
enum { FRAGMENT_COLUMNS = sizeof(saved_fragment) / sizeof(int64_t) };

/* A fragment that this rank owns; `at` and `sum` are set as it is written. */
typedef struct {
    saved_fragment of;
    const param *p;
    const bucket *b;
    int64_t in_shard, dataset; /* its first element in the bucket's shard; the first of the bucket's datasets */
    bool counts;               /* this rank is the first of its owners, and writes it */
} own_fragment;
typedef struct {
    int64_t count, datasets;
    own_fragment *list;
    raw_dataset *dataset; /* of the buckets that count, one for each state: the rank's file */
    double bytes;         /* of these */
} own_fragments;

/* Lists what a trainer's rank owns, without padding; t NULL: nothing. No two fragments overlap. */
own_fragments fragments_of(const trainer *t);
void fragments_free(own_fragments *own);
/* A piece of a fragment that is moved and summed at a time: it stays in the cache. whole: columns of the parameter. */
enum { PIECE_ELEMENTS = 1 << 20 };
typedef struct {
    const saved_fragment *of;
    saved_state state;
    int64_t whole, from, count;
} piece;
/* The piece after p, the first if its count is 0; false after the last. */
bool piece_next(piece *p);
int64_t piece_bytes(const piece *p);
/* Where it lies in the rank's file. */
int64_t piece_at(const piece *p);
/* A piece of what this rank owns, flat. */
tensor piece_view(const own_fragment *o, const piece *p);
/* Adds the sums of its elements, which lie in x. */
void piece_sums(const piece *p, const void *x, uint64_t sum[SUMS]);
/* Orders fragments by parameter and block. */
int fragment_order(const void *a, const void *b);

/* Elements that two fragments of one block share: `own` from the start of one, `saved` from the start of the other. */
typedef struct {
    int64_t own, saved, count;
} shared_run;
/* The run after r among elements from to from + count - 1 of `own`; the first is that after { 0 }. False: no more. */
bool fragment_next_run(const saved_fragment *own, int64_t from, int64_t count, const saved_fragment *saved,
                       shared_run *r);
