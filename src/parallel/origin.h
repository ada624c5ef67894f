/* Who asks for the operations that are submitted next (machine/op/op.h). It is steered here alone: each call sets the
 * whole origin and returns the one before, for origin_restore. */
#pragma once
#include "machine/queue/machine.h"

/* Outside any microbatch; of a microbatch of a chunk in that step, in no layer; of a layer of the model, or none (-1).
 */
origin origin_step(machine *m, int64_t step, phase p);
origin origin_microbatch(machine *m, phase p, int chunk, int64_t microbatch);
origin origin_layer(machine *m, phase p, int64_t layer);
origin origin_phase(machine *m, phase p);
void origin_restore(machine *m, origin before);
