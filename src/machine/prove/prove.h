/* prove/: proves a machine's operations beside the dispatcher, if it is asked to: operations are compared with the host
 * (shadow.h), transfers are proven (delivery.h), and faults are planted that a check must find (fault.h). */
#pragma once
#include "machine/prove/delivery.h"
#include "machine/prove/fault.h"
#include "machine/prove/shadow.h"

/* From here on operations are shadowed so. Mismatches become files (shadow_open), unless a fault is planted. */
void prove_shadow(machine *m, shadow_mode mode);
/* Returns the report on all shadowed operations, or NULL if none was asked for. */
const shadow_report *prove_shadowed(const machine *m);

/* From here on transfers are proven so. step: the counts of a step, for memory; NULL: no sums are proven. */
void prove_transfers(machine *m, delivery_mode mode, const tally *step);
/* As delivery_judge_sums and delivery_judge; m NULL: this rank takes no part. */
void prove_judge_sums(machine *m);
delivery_report prove_judge_transfers(machine *m);

void prove_plant(machine *m, const fault *f);
int64_t prove_faults(const machine *m);   /* how often the fault struck, this rank */
const op *prove_struck(const machine *m); /* the operation that it last struck; valid if it ever did */
/* Returns the planted fault, completed with the transfer it names if the steps submitted so far have it. */
fault prove_planted(const machine *m);

/* Leaves out that wait of the step, counted over all queues, among those that order something (tests); -1: none. */
void prove_drop_wait(machine *m, int64_t index);
/* The last operation before which a wait was left out. */
const op *prove_unwaited(const machine *m);
