/* Matrix products: shapes noted on paper, algorithms chosen by trial before the first step, handles of cuBLASLt.
 * The launcher, cuda_matmul, is in kernels.h. */
#pragma once
#include "machine/machine.h"

/* A measuring machine met the product: remembers its shape for cuda_matmul_tune. Needs no device. */
void cuda_matmul_prepare(const op *o);
/* Chooses an algorithm for every noted shape, in device memory that nobody uses yet. Synchronizes. */
void cuda_matmul_tune(const machine_options *options, void *memory, size_t bytes);
/* Once per machine that runs; the last close gives back what the library holds. */
void cuda_matmul_open(void);
void cuda_matmul_close(void);
