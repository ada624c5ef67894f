/* Which of the library's algorithms makes a product: its first answer, the fastest of trials, or what earlier runs
 * found. */
#pragma once
#include "machine/cuda/products/product.h"
#include "machine/machine.h"

/* The library's first answer that works here. */
void algorithm_first(product *p, int multiprocessors_left);
/* An algorithm for each, in that order; memory is free for trials. options->algorithm_cache: read first, and what it
 * lacks is added (algorithm_cache.h). */
void algorithms_choose(product *const *list, size_t count, const machine_options *options, void *memory, size_t bytes);
/* Products of fewer flops get the library's first answer without trials (1e10, if nobody says). For tests of trials. */
void algorithms_try_from(double flops);
/* One line on the product and its algorithm; as snprintf. */
size_t algorithm_describe(const product *p, char *text, size_t length);
