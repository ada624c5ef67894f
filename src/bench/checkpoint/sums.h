/* Two sums that find damage. Each is modulo 2^64:
 *     SUM_BITS = sum of bits,   SUM_PLACES = sum of (place + 1) * bits
 * where an element's bits are an unsigned integer and its place is its number in the block. Partial sums of any
 * partition add up, so a block has the same sums in every layout. A single element that changed changes SUM_BITS. Two
 * unequal elements that changed places change SUM_PLACES by (i - j)(a - b), whose factors are below 2^32, so that it is
 * not 0 modulo 2^64. */
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef enum { SUM_BITS, SUM_PLACES, SUMS } bit_sum;

/* Adds `count` elements (less than 2^32) of 2 or 4 bytes that lie at x, from that of place `first` on. */
void bits_add(const void *x, size_t bytes, int64_t count, int64_t first, uint64_t sum[SUMS]);
