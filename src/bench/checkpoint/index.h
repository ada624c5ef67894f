/* The index of a checkpoint, file index.h5: the list of its fragments and their places. */
#pragma once
#include "base/sha256.h"
#include "bench/checkpoint/rank_file.h"

typedef struct {
    int64_t step, fragments, amaxes, parameters;
    rate_extent rate;
    saved_fragment *fragment; /* [fragments], sorted by fragment_order; this and the next two are owned */
    int64_t *amax;    /* [amaxes]: history of the amaxes of FP8 tensors, a row for each step; empty in other cases */
    int64_t *columns; /* [parameters]: columns of the whole matrices */
    char folder[FOLDER_LENGTH], sha256[SHA256_HEX];
} checkpoint_index;

/* Gathers the fragments of all ranks on rank 0. t: NULL on a rank that takes no part. Collective over the world. */
checkpoint_index index_gather(const trainer *t, const own_fragments *own, int64_t step);
/* Writes index.h5 and its sum (as sha256sum does), on rank 0. Sets x->sha256. Returns false and a sentence on errors.
 */
bool index_write(checkpoint_index *x, const bench_case *c, const char *folder, char reason[CHECKPOINT_SENTENCE]);
/* Reads the index of the newest checkpoint in a folder. Returns false and a sentence if it cannot, or if the checkpoint
 * has another model, precision or training rule than the case. Call it on rank 0. */
bool index_read(checkpoint_index *x, const bench_case *c, const char *parent, char reason[CHECKPOINT_SENTENCE]);
/* Copies rank 0's index to all ranks. Collective over the world. */
void index_broadcast(checkpoint_index *x);
void index_free(checkpoint_index *x);
/* Returns the first saved fragment of the block of `of`, or NULL, and sets *count to the number of its fragments. */
const saved_fragment *index_find(const checkpoint_index *x, const saved_fragment *of, int64_t *count);
