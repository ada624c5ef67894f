/* Operands that a library of attention does not take where they lie. It writes BF16: dk and dv in FP32 have twins in
 * scratch, without gaps, from which they are stored, or added to. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"

bool attention_is_staged(const cuda_call *c, int which);
/* The call on twins, the first of them `first` bytes into scratch; the end of the last. Of shapes only: scratch may be
 * NULL. */
size_t attention_staged(const cuda_call *c, bool backward, size_t first, cuda_call *staged);
/* Queues what comes behind the library's work. */
void attention_unstage(const cuda_call *c, const cuda_call *staged);

/* Scratch in pieces that begin at multiples of 256 bytes. */
size_t attention_piece(size_t bytes);
void *attention_piece_at(const cuda_call *c, size_t offset);
