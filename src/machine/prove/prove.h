/* prove/: optional proofs of a machine's operations: comparison with the host (shadow.h), proof of transfers
 * (delivery.h), and planted faults that a check must find (fault.h). */
#pragma once
#include "machine/prove/delivery.h"
#include "machine/prove/fault.h"
#include "machine/prove/shadow.h"

/* Shadows operations in this mode from now on. Mismatches are written to files, unless a fault is planted. */
void prove_shadow(machine *m, shadow_mode mode);
/* Returns the report on all shadowed operations, or NULL if shadowing was never on. */
const shadow_report *prove_shadowed(const machine *m);

/* Proves transfers in this mode from now on. step: counts of a step, for memory; NULL with DELIVERY_FIRST. */
void prove_transfers(machine *m, delivery_mode mode, const tally *step);
/* Call delivery_judge_sums and delivery_judge. prove_judge_transfers takes NULL on a rank that takes no part. */
void prove_judge_sums(machine *m);
delivery_report prove_judge_transfers(machine *m);

void prove_plant(machine *m, const fault *f);
int64_t prove_faults(const machine *m);   /* number of strikes on this rank */
const op *prove_struck(const machine *m); /* last operation that was struck, if any */
/* Returns the planted fault, with the group and sequence of its transfer if a step so far contains it. */
fault prove_planted(const machine *m);

/* Leaves out wait number `index` of a step, counted as by machine_waits (for tests); -1: none. */
void prove_drop_wait(machine *m, int64_t index);
/* Returns the last operation before which a wait was left out. */
const op *prove_unwaited(const machine *m);
