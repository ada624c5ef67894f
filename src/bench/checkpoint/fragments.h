/* checkpoint/: the state of training in files. It is saved by one layout and loaded into any layout.
 *
 * Fragments: parts of parameters that one rank owns, and their places in the files of a checkpoint. The state of an
 * element is its master weight (the weight itself if there is no separate master) and two moments. */
#pragma once
#include "bench/record/raw_file.h"
#include "train/trainer.h"

typedef enum { STATE_WEIGHT, STATE_FIRST_MOMENT, STATE_SECOND_MOMENT, STATES } saved_state;
extern const char *const state_names[STATES];

/* Two sums over elements, modulo 2^64, that detect damage. SUM_BITS adds the bits of each element as an unsigned
 * integer. SUM_PLACES adds (place + 1) * bits, where place is the element's number in its block. Partial sums add up,
 * so a block has the same sums in every layout. If one element changes, SUM_BITS changes. If elements a and b at places
 * i and j are exchanged, SUM_PLACES changes by (i - j)(a - b), which is not 0 modulo 2^64 because both factors are
 * below 2^32. */
typedef enum { SUM_BITS, SUM_PLACES, SUMS } bit_sum;

/* Elements first to first + count - 1, row by row, of a matrix with `columns` columns. The first element of the matrix
 * is element [first_row, first_column] of a parameter. logical: number of the parameter (model/param.h). block: number
 * of the block of rows; a block has at most 2^32 elements. The elements are contiguous in the file of `rank`, from byte
 * `at`. All members are integers of 8 bytes, because the index stores fragments as a table of integers. */
typedef struct {
    int64_t logical, block, rank, first_row, first_column, columns, first, count;
    int64_t at[STATES], bytes[STATES]; /* bytes: of one element */
    uint64_t sum[STATES][SUMS];
} saved_fragment;
enum { FRAGMENT_COLUMNS = sizeof(saved_fragment) / sizeof(int64_t) };

/* A fragment that this rank owns. rank_file_write sets saved.at and saved.sum. */
typedef struct {
    saved_fragment saved;
    const param *p;
    const bucket *b;
    int64_t shard_offset, dataset; /* first element in the bucket's shard; index of the bucket's first dataset */
    bool writes;                   /* this rank writes it, because it is the first owner */
} own_fragment;
typedef struct {
    int64_t count, datasets;
    own_fragment *list;
    raw_dataset *dataset; /* contents of the rank's file: one for each bucket that it writes and each state */
    double bytes;         /* bytes of the datasets */
} own_fragments;

/* Lists the fragments that this rank owns, without padding; none if t is NULL. Fragments do not overlap. */
own_fragments fragments_of(const trainer *t);
void fragments_free(own_fragments *own);
/* A piece of a fragment, small enough to stay in the cache. width: columns of the whole parameter. */
enum { PIECE_ELEMENTS = 1 << 20 };
typedef struct {
    const saved_fragment *fragment;
    saved_state state;
    int64_t width, from, count;
} piece;
/* Advances p to the next piece, or to the first if its count is 0. Returns false after the last. */
bool piece_next(piece *p);
int64_t piece_bytes(const piece *p);
int64_t piece_file_offset(const piece *p);
/* Returns a flat view of a piece of an own fragment. */
tensor piece_view(const own_fragment *o, const piece *p);
/* Adds the sums of the piece's elements, which are in x. */
void piece_sums(const piece *p, const void *x, uint64_t sum[SUMS]);
/* Compares fragments by parameter and block, for qsort. */
int fragment_order(const void *a, const void *b);

/* A run of `count` elements that two fragments of one block share. own, saved: offset of the run in each fragment. */
typedef struct {
    int64_t own, saved, count;
} shared_run;
/* Finds the run after r among elements from to from + count - 1 of `own`; start with { 0 }. Returns false at the end.
 */
bool fragment_next_run(const saved_fragment *own, int64_t from, int64_t count, const saved_fragment *saved,
                       shared_run *r);
