/* A deck's planted fault. */
#pragma once
#include "train/measure.h"

/* As the deck says it: which transfer it strikes, if it strikes one, is not known yet. */
fault fault_planted(const bench_case *c);
/* As the struck rank's measure of the case completed it. Collective over the world. */
fault fault_agreed(const bench_case *c, const measure *r);

/* Writes which operation of this rank's machine the case's fault struck: "matmul down (backward: read, read, written)",
 * the same text for operations that a model repeats. Empty on other ranks, and if none was struck. */
void fault_struck(const bench_case *c, const machine *m, char text[OP_TEXT]);
