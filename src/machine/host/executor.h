/* The host executor behind machine/backend.h: queues of operations run on this rank's cores. */
#pragma once
#include "machine/machine.h"

typedef struct executor executor;
executor *executor_open(const machine_options *options, tally *t);
void executor_close(executor *e);
void executor_submit(executor *e, int at, uint64_t serial, const op *o);
void executor_wait(executor *e, int at, int target, uint64_t serial);
/* Runs operations until the queue's `serial` is complete. */
void executor_sync(executor *e, int at, uint64_t serial);
double executor_completed(executor *e, int at, uint64_t serial);
void executor_scratch(executor *e, int at, void *memory, size_t bytes);
const span *executor_spans(executor *e, int64_t *count);
