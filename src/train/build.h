/* From a case and its measure to a trainer on a machine. */
#pragma once
#include "train/measure.h"

/* Takes one block of memory, as large as measured, lays the case out in it, gives queues their scratch and makes the
 * machine ready for what was noted. r: of the same case, mesh and machine. */
void trainer_build(trainer *t, const bench_case *c, mesh *m, const trainer_options *o, const measure *r);
void trainer_dismantle(trainer *t); /* closes trainer, machine and memory of trainer_build */
