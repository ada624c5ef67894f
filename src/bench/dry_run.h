/* A deck on paper: layout, parameters, exact bytes, flops and messages of every case and rank, at any rank count;
 * allocates no training memory and needs no mpirun. */
#pragma once
#include "plan/deck/deck.h"

/* Is it done in minutes? If not, the sentence with the figure. */
bool dry_run_is_bounded(const deck *d, char *sentence, size_t length);
/* Describes every case of the deck, with the schedule of every stage if asked for, whether it fits a device of so many
 * bytes, and how long its steps take at step_seconds of the first case (0: not known); all printed by the caller's
 * process. False: operations of a step are not ordered. */
bool dry_run(const deck *d, bool schedules, double step_seconds, double device_bytes);
/* What every pipeline stage of a case that can be laid out does in a step, as lists and as a picture, with makespan and
 * bubble (show_schedule.c). */
void show_schedule(const bench_case *c);
