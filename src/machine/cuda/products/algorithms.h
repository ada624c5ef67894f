/* Chooses cuBLASLt's algorithm for a product: its first proposal, or the fastest in trials. */
#pragma once
#include "machine/cuda/products/product.h"
#include "machine/queue/kind.h"

/* Chooses cuBLASLt's first proposal that works here. The product leaves that many multiprocessors to transfers. */
void algorithm_first(product *p, int multiprocessors_left);
/* Chooses an algorithm for each product, in that order, by trials in `memory` within TUNE_SECONDS. Takes cuBLASLt's
 * first proposal if time or memory is short, or if tuning->deterministic: trials differ from run to run. */
enum { TUNE_SECONDS = 30 };
void algorithms_choose(product *const *list, size_t count, const machine_tuning *tuning, void *memory, size_t bytes);
/* For tests. Sets the flops below which products get no trials (1e10) and the seconds of load before trials (1). */
void algorithms_try_from(double flops, double warm);
/* Writes one line about the product and its algorithm. Returns the length, like snprintf. */
size_t algorithm_describe(const product *p, char *text, size_t length);
