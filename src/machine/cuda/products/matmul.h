/* Matrix products: shapes noted before, algorithms chosen by trial before the first step. cuda_matmul is in kernels.h.
 * All of it is process state: what one case has found, the next one knows. */
#pragma once
#include "machine/op/op.h"
#include "machine/queue/kind.h"

/* The product will be run: remembers its shape for cuda_matmul_tune. Needs no device. */
void cuda_matmul_prepare(const op *o);
/* Chooses an algorithm for every shape noted since the last call, in memory that nobody uses yet. Synchronizes. */
void cuda_matmul_tune(const machine_tuning *t, void *memory, size_t bytes);
/* The products that have run since a machine was last opened and how each is made, one a line, the longest first; if
 * not all fit, the last line says how many more there are. For the record. length: at least 32. */
void cuda_matmul_algorithms(char *text, size_t length);
/* The most multiprocessors that one of those products left to transfers. */
int cuda_matmul_left(void);
/* Once per machine; the last close gives back descriptions. The library's handle stays. */
void cuda_matmul_open(void);
void cuda_matmul_close(void);
