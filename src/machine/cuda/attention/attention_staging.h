/* Rewrites an attention call into calls that cuDNN can compute.
 *
 * cuDNN writes BF16: FP32 dk and dv are staged in contiguous BF16 tensors in scratch, then copied or added. If there
 * are fewer queries than keys, cuDNN's backward also computes masked scores. Such a call becomes two: a masked square
 * over the last keys, then the earlier keys without a mask, both with the statistics of whole rows. dq of the second
 * part is staged, too, and added. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"

enum { ATTENTION_PARTS = 2 };
typedef struct {
    cuda_call staged, part[ATTENTION_PARTS]; /* the call with staging tensors; its parts, to be computed in order */
    int parts;
    size_t end; /* of the staging tensors in scratch */
} attention_parts;

bool attention_is_staged(const cuda_call *c, int which);
/* Divides a call. Staging tensors begin at byte `first` of scratch. Only shapes are used: scratch may be NULL. */
attention_parts attention_parts_of(const cuda_call *c, bool backward, size_t first);
/* Queues the copies from staging tensors to operands. Call it after the library's work is queued. */
void attention_unstage(const cuda_call *c, const attention_parts *p);

/* attention_align rounds up to a multiple of 256. attention_scratch_at returns an address in the aligned scratch. */
size_t attention_align(size_t bytes);
void *attention_scratch_at(const cuda_call *c, size_t offset);
