/* The host executor behind machine/backend.h: queues of operations run on this rank's cores. */
#pragma once
#include "machine/backend.h"

void *executor_open(const machine_options *options, const backend *kind, history *h);
void executor_close(void *state);
void executor_submit(void *state, const submission *s);
/* Runs operations until the queue's `serial` is complete. */
void executor_sync(void *state, int queue, uint64_t serial);
