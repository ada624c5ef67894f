/* Ranges that profilers show (NVTX, domain xgsw). Submission is nested: step, phase with microbatch and chunk, layer,
 * operation. What the host machine executes is flat, a range for each operation. Nothing happens if no tool listens. */
#pragma once
#include "machine/op/op.h"

/* Registers the names of the ranges of an operation, which takes memory. The step on paper calls it for every operation
 * before the first real step. */
void ranges_name(const op *o);
/* Opens the range of an operation that is being submitted, inside the ranges of its origin; closes it. */
void ranges_open(const op *o);
void ranges_close(void);
/* Closes the ranges of the last origin: the caller waits or is done. */
void ranges_leave(void);
/* Begins the range of an execution and returns what ends it. Such ranges may overlap. */
uint64_t ranges_begin(const op *o);
void ranges_end(uint64_t range);
/* Begins and ends the range `profile`, in which tools capture. */
void ranges_capture(bool on);
