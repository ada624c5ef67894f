/* Rewrites an attention call into calls that cuDNN can compute.
 *
 * cuDNN writes BF16: FP32 dk and dv get contiguous BF16 twins in scratch, which are then copied or added to them. In
 * backward, cuDNN also computes masked scores if there are fewer queries than keys. Such a call becomes two: a masked
 * square over the last keys, then the earlier keys without a mask, both with the statistics of whole rows. dq of the
 * second part has a twin, which is added. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"

enum { ATTENTION_PARTS = 2 };
typedef struct {
    cuda_call staged, part[ATTENTION_PARTS]; /* the call with twins; its parts, to be computed in order */
    int parts;
    size_t end; /* where the twins end in scratch */
} attention_parts;

bool attention_is_staged(const cuda_call *c, int which);
/* Divides a call. Twins begin `first` bytes into scratch. Only shapes matter: scratch may be NULL. */
attention_parts attention_parts_of(const cuda_call *c, bool backward, size_t first);
/* Queues the copies from twins to operands. Call it after the library's work is queued. */
void attention_unstage(const cuda_call *c, const attention_parts *p);

/* attention_piece rounds up to a multiple of 256. attention_piece_at returns an address in the aligned scratch. */
size_t attention_piece(size_t bytes);
void *attention_piece_at(const cuda_call *c, size_t offset);
