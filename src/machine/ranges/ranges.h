/* ranges/: ranges that profilers show (NVTX, domain xgsw). Submissions have nested ranges: step, phase with microbatch
 * and chunk, layer, operation. Executions on the host machine have ranges that can overlap. */
#pragma once
#include "machine/op/op.h"

/* Open and close the range of a submitted operation, inside the ranges of its origin. On paper, ranges_open only
 * registers the names with the tool, so that no step takes time for it. */
void ranges_open(const op *o, bool on_paper);
void ranges_close(void);
void ranges_leave(void);            /* closes all open ranges; called before a wait */
uint64_t ranges_begin(const op *o); /* begins the range of an execution; returns its number, for ranges_end */
void ranges_end(uint64_t begun);
void ranges_capture(bool on); /* begins or ends the range `profile`, to which tools can limit their capture */
