/* Origin of the operations that are submitted next (machine/op/op.h). Only these functions set it. Each sets the whole
 * origin and returns the previous one, for origin_restore. */
#pragma once
#include "machine/queue/machine.h"

origin origin_step(machine *m, int64_t step, phase p);                        /* in no microbatch */
origin origin_microbatch(machine *m, phase p, int chunk, int64_t microbatch); /* in the current step, in no layer */
origin origin_layer(machine *m, phase p, int64_t layer);                      /* -1: in no layer */
origin origin_phase(machine *m, phase p);
void origin_restore(machine *m, origin before);
