/* What a checkpoint holds and where: the file index.h5. */
#pragma once
#include "base/sha256.h"
#include "bench/checkpoint/rank_file.h"

typedef struct {
    int64_t step, fragments, amaxes, parameters;
    rate_extent rate;
    saved_fragment *fragment; /* [fragments], in the order of fragment_order; owned, as are the next two */
    int64_t *amax;    /* [amaxes]: the largest magnitudes of FP8's tensors, in rows of a step; 0 of other cases */
    int64_t *columns; /* [parameters] of the whole matrices */
    char folder[FOLDER_LENGTH], sha256[SHA256_HEX];
} checkpoint_index;

/* Gathers what all ranks have written, on rank 0; t NULL: nothing. Collective over the world. */
checkpoint_index index_gather(const trainer *t, const own_fragments *own, int64_t step);
/* Writes index.h5, and index.h5.sha256 as sha256sum does, into the folder; sets x->sha256. On rank 0. */
bool index_write(checkpoint_index *x, const bench_case *c, const char *folder, char reason[CHECKPOINT_SENTENCE]);
/* Reads the index of a folder's newest checkpoint. False: a sentence; also if it is not of this case's model, precision
 * and rules. On rank 0. */
bool index_read(checkpoint_index *x, const bench_case *c, const char *parent, char reason[CHECKPOINT_SENTENCE]);
/* All ranks get rank 0's. Collective over the world. */
void index_broadcast(checkpoint_index *x);
void index_free(checkpoint_index *x);
/* The fragments of the same block: returns the first, and sets how many there are. */
const saved_fragment *index_find(const checkpoint_index *x, const saved_fragment *of, int64_t *count);
