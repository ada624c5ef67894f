/* A deck on paper: layout, parameters and exact bytes per rank, flops of every case, at any rank count; allocates no
 * training memory and needs no mpirun. */
#pragma once
#include "plan/deck.h"

/* Describes every case of the deck, with the schedule of every stage if asked for; all printed by the caller's process. */
void dry_run(const deck *d, bool schedules);
