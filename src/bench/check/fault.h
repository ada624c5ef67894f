/* A deck's planted fault. */
#pragma once
#include "train/measure.h"

/* Returns the fault as the deck gives it. If it strikes a transfer, the transfer is not known yet. */
fault fault_planted(const bench_case *c);
/* Returns the same fault on all ranks, as the measure of the struck rank completed it. Collective over the world. */
fault fault_agreed(const bench_case *c, const measure *r);

/* Writes the operation of this rank's machine that the fault struck: "matmul down (backward: read, read, written)".
 * Repeated operations of a model have the same text. The text is empty on other ranks, and if nothing was struck. */
void fault_struck(const bench_case *c, const machine *m, char text[OP_TEXT]);
