/* Operands that a library of attention does not take where they lie: each has a twin in scratch, without gaps. */
#pragma once
#include "machine/cuda/attention/attention_kernels.h"

/* The library writes BF16: what is written in FP32, parts of a ring's sums, has a twin in BF16. Statistics it reads and
 * writes without gaps: those of some positions only have a twin. */
bool attention_is_staged(const cuda_call *c, bool backward, int which);
/* The call on twins, the first of them `first` bytes into scratch; the end of the last. Of shapes only: scratch may be
 * NULL. */
size_t attention_staged(const cuda_call *c, bool backward, size_t first, cuda_call *staged);
/* Queues what comes before the library's work: twins that it reads; and after: twins that it wrote are stored, or
 * added. */
void attention_stage(const cuda_call *c, bool backward, const cuda_call *staged);
void attention_unstage(const cuda_call *c, bool backward, const cuda_call *staged);

/* Scratch in pieces that begin at multiples of 256 bytes. */
size_t attention_piece(size_t bytes);
void *attention_piece_at(const cuda_call *c, size_t offset);
