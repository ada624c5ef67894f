/* The CUDA executor behind machine/backend.h: queues are streams, marks are events. It launches when it is told to
 * submit; the host waits in sync, and where a queue is a hundred operations ahead of the device. */
#pragma once
#include "machine/machine.h"

typedef struct cuda_executor cuda_executor;
cuda_executor *cuda_executor_open(const machine_options *options, tally *t);
void cuda_executor_close(cuda_executor *e);
void cuda_executor_submit(cuda_executor *e, int at, uint64_t serial, const op *o);
void cuda_executor_wait(cuda_executor *e, int at, int target, uint64_t serial);
/* Waits until the queue's `serial` is complete. */
void cuda_executor_sync(cuda_executor *e, int at, uint64_t serial);
double cuda_executor_completed(cuda_executor *e, int at, uint64_t serial);
void cuda_executor_scratch(cuda_executor *e, int at, void *memory, size_t bytes);
const span *cuda_executor_spans(cuda_executor *e, int64_t *count);
