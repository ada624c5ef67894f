/* A deck's planted fault. */
#pragma once
#include "train/measure.h"

/* Returns the deck's fault. Its transfer, if it strikes one, is known only after measure_case. */
fault fault_planted(const bench_case *c);
/* Returns the deck's fault with its transfer, from the measure r of the struck rank. Collective over the world. */
fault fault_agreed(const bench_case *c, const measure *r);

/* Writes the operation of this rank's machine that the fault struck: "matmul down (backward: read, read, written)".
 * Repeated operations of a model have the same text. The text is empty on other ranks, and if nothing was struck. */
void fault_struck(const bench_case *c, const machine *m, char text[OP_TEXT]);
