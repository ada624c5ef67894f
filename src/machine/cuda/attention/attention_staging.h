/* A call of attention as a library computes it.
 *
 * It writes BF16: dk and dv in FP32 have twins in scratch, without gaps, from which they are stored, or added to.
 * Backward it computes what a mask of fewer queries than keys hides: such a call is two, a masked square over the last
 * keys, then all keys before them without a mask, both with the statistics of whole rows; dq of the second has a twin,
 * which is added. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"

enum { ATTENTION_PARTS = 2 };
typedef struct {
    cuda_call staged, part[ATTENTION_PARTS]; /* the call on twins; what the library computes of it, one after another */
    int parts;
    size_t end; /* of the twins in scratch */
} attention_parts;

bool attention_is_staged(const cuda_call *c, int which);
/* Twins begin `first` bytes into scratch. Of shapes only: scratch may be NULL. */
attention_parts attention_parts_of(const cuda_call *c, bool backward, size_t first);
/* Queues what comes behind the library's work. */
void attention_unstage(const cuda_call *c, const attention_parts *p);

/* Scratch in pieces that begin at multiples of 256 bytes. */
size_t attention_piece(size_t bytes);
void *attention_piece_at(const cuda_call *c, size_t offset);
