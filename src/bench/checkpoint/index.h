/* What a checkpoint holds and where: the file index.h5. */
#pragma once
#include "base/sha256.h"
#include "bench/checkpoint/shard_file.h"

typedef struct {
    int64_t step; /* steps that were done */
    rate_extent rate;
    int64_t blocks, fragments, amaxes;
    saved_block *block;                     /* [blocks], in the order of (logical, block); owned, as are the next two */
    saved_fragment *fragment;               /* [fragments], likewise */
    char (*name)[sizeof((param *)0)->name]; /* [blocks] of the parameters, on the rank that saves; owned */
    int64_t *amax; /* [amaxes]: the history of FP8's largest magnitudes, in rows of a step; 0 of other cases */
    char folder[FOLDER_LENGTH], sha256[SHA256_HEX];
} checkpoint_index;

/* Gathers what all ranks have written; t NULL: nothing. On rank 0; the others have only step and rate. Collective
 * over the world. */
checkpoint_index index_gather(const trainer *t, const own_fragments *own, int64_t step);
/* Writes index.h5, and index.h5.sha256 as sha256sum does, into the folder; sets x->sha256. On rank 0. */
bool index_write(checkpoint_index *x, const bench_case *c, const char *folder, char reason[CHECKPOINT_SENTENCE]);
/* Reads the index of a folder's newest checkpoint. False: a sentence; also if it is not of this case's model, precision
 * and rules. On rank 0. */
bool index_read(checkpoint_index *x, const bench_case *c, const char *parent, char reason[CHECKPOINT_SENTENCE]);
/* All ranks get rank 0's. Collective over the world. */
void index_broadcast(checkpoint_index *x);
void index_free(checkpoint_index *x);
/* The block; the fragments of it: returns the first, and sets how many follow it. NULL: there is none. */
saved_block *index_block(const checkpoint_index *x, const saved_fragment *of);
const saved_fragment *index_fragments(const checkpoint_index *x, const saved_fragment *of, int64_t *count);
