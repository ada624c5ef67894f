/* The CUDA executor: queues are streams, marks are events. The host waits in sync, and where a queue is full. */
#pragma once
#include "machine/queue/backend.h"

/* Bytes of scratch that an operation needs, a transfer or not. From shapes only. */
size_t cuda_scratch_of(const machine_tuning *t, const op *o);
void *cuda_executor_open(const machine_options *options, history *h);
void cuda_executor_close(void *state);
void cuda_executor_tune(void *state, const preparation *p, void *memory, size_t bytes);
void cuda_executor_submit(void *state, const submission *s);
/* Waits until the queue's `serial` is complete. */
void cuda_executor_sync(void *state, int queue, uint64_t serial);
void cuda_executor_upload(void *state, void *to, const void *from, size_t bytes);
void cuda_executor_download(void *state, void *to, const void *from, size_t bytes);
