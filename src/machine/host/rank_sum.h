/* Sums over ranks: parts of consecutive ranks, added in rank order. */
#pragma once
#include "machine/tensor.h"

/* Part i of `count` lies at base + i stride; number `own` (-1: none) lies at `own_part` instead. */
typedef struct {
    char *base;
    size_t stride;
    int count, own;
    char *own_part;
} rank_parts;

/* What a running sum is kept in: F32 for F32 and BF16, else the type itself. */
dtype rank_sum_type(dtype type);
/* to[i] = before[i] + part 0 [i] + part 1 [i] + ... for i < n; F32 and BF16 in FP32, rounded once to to_type. before: a
 * running sum, NULL: none; it may be `to`. */
void rank_sum(void *to, dtype to_type, const void *before, const rank_parts *parts, dtype type, int64_t n);
