/* Which of the library's algorithms makes a product: its first answer or the fastest of trials. */
#pragma once
#include "machine/cuda/products/product.h"
#include "machine/queue/kind.h"

/* The library's first answer that works here. */
void algorithm_first(product *p, int multiprocessors_left);
/* An algorithm for each, in that order, by trials in the memory within TUNE_SECONDS; the library's first answer if time
 * or memory does not suffice, and always if deterministic (trials differ from run to run). */
enum { TUNE_SECONDS = 30 };
void algorithms_choose(product *const *list, size_t count, const machine_tuning *t, void *memory, size_t bytes);
/* Products of fewer flops get the library's first answer without trials (1e10, if nobody says); trials begin after so
 * many seconds of load (1). For tests of trials. */
void algorithms_try_from(double flops, double warm);
/* One line on the product and its algorithm; as snprintf. */
size_t algorithm_describe(const product *p, char *text, size_t length);
