/* The CUDA executor (machine/queue/backend.h). Queues are streams, marks are events. submit waits in a full queue. */
#pragma once
#include "machine/queue/backend.h"

/* Returns the bytes of scratch that an operation needs, from its shapes alone. A transfer needs none. */
size_t cuda_scratch_of(const machine_tuning *t, const op *o);
void *cuda_executor_open(const machine_options *options, history *h);
void cuda_executor_close(void *state);
void cuda_executor_tune(void *state, const preparation *p, void *memory, size_t bytes);
void cuda_executor_submit(void *state, const submission *s);
/* Waits until the operation `serial` of the queue is complete. */
void cuda_executor_sync(void *state, int queue, uint64_t serial);
void cuda_executor_upload(void *state, void *to, const void *from, size_t bytes);
void cuda_executor_download(void *state, void *to, const void *from, size_t bytes);
