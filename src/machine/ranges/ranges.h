/* Ranges that profilers show (NVTX, domain xgsw), if one is attached. Those of submission are nested: step, phase with
 * microbatch and chunk, layer, operation. Those of the host machine's executions may overlap. */
#pragma once
#include "machine/op/op.h"

/* Opens the range of an operation that is submitted, inside those of its origin, and closes it. On paper its names are
 * registered, so that none is made in a step. */
void ranges_open(const op *o, bool on_paper);
void ranges_close(void);
void ranges_leave(void); /* closes those around it, too: the caller waits */
/* Begins the range of an execution; returns what ends it. */
uint64_t ranges_begin(const op *o);
void ranges_end(uint64_t begun);
/* Begins or ends the range `profile`, in which tools capture. */
void ranges_capture(bool on);
