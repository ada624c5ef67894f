/* Ranges that profilers show (NVTX, domain xgsw). Ranges of submissions are nested: step, phase with microbatch and
 * chunk, layer, operation. Ranges of executions on the host machine can overlap. */
#pragma once
#include "machine/op/op.h"

/* Open and close the range of a submitted operation, inside the ranges of its origin. On paper, ranges_open only
 * registers the names, so that no step has to. */
void ranges_open(const op *o, bool on_paper);
void ranges_close(void);
void ranges_leave(void); /* closes all open ranges, because the caller waits */
/* Begins the range of an execution. Returns the number that ranges_end takes. */
uint64_t ranges_begin(const op *o);
void ranges_end(uint64_t begun);
/* Begins or ends the range `profile`, in which tools capture. */
void ranges_capture(bool on);
