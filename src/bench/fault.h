/* A deck's planted fault, on its way to the machines. */
#pragma once
#include "train/trainer.h"

/* The fault of the case's fault on this mesh; if it names a transfer, the struck rank measures which one and tells
 * all. Collective over the world if the case has a fault. */
fault fault_of(const bench_case *c, mesh *m, const machine_options *on);

/* Which operation the case's fault struck on its own rank, whose machine it is there (NULL: takes no part): "matmul
 * down (backward: read, read, written)", the same text for operations that a model repeats, and empty if none was
 * struck. Collective over the world if the case has a fault. */
void fault_struck(const bench_case *c, const machine *m, char text[OP_TEXT]);
