/* Matrix products. Shapes are noted first, and algorithms are chosen before the first step. cuda_matmul is declared in
 * kernels.h. Everything is process state: later cases use the same algorithms. */
#pragma once
#include "machine/op/op.h"
#include "machine/queue/kind.h"

/* Notes the shape of a product that will run, for cuda_matmul_tune. Needs no device. */
void cuda_matmul_prepare(const op *o);
/* Chooses an algorithm for every shape noted since the last call, using unused memory. Waits for the device. */
void cuda_matmul_tune(const machine_tuning *t, void *memory, size_t bytes);
/* Writes the products that ran since a machine was last opened, with their algorithms, for the record: one per line,
 * the longest first. If they do not all fit, the last line counts the rest. length: at least 32. */
void cuda_matmul_algorithms(char *text, size_t length);
/* Returns how many multiprocessors these products left to transfers, at most. */
int cuda_matmul_multiprocessors_left(void);
/* Open and close once per machine. The last close frees descriptors. The library's handle stays open. */
void cuda_matmul_open(void);
void cuda_matmul_close(void);
