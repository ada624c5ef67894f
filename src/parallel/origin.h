/* Who asks for the operations that are submitted next (machine/op.h). It is steered here alone: each call sets the
 * whole origin and returns the one before, for origin_restore. */
#pragma once
#include "machine/machine.h"

/* Of a step, outside any microbatch. */
origin origin_step(machine *m, int64_t step, phase p);
/* Of a microbatch of a chunk in that step; no layer. */
origin origin_microbatch(machine *m, phase p, int chunk, int64_t microbatch);
/* Of a layer of the model, or none (-1). */
origin origin_layer(machine *m, int64_t layer);
origin origin_phase(machine *m, phase p);
void origin_restore(machine *m, origin before);
