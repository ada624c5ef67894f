/* A deck on paper: layout, parameters, exact bytes, flops and messages of every case and rank, at any rank count;
 * allocates no training memory and needs no mpirun. */
#pragma once
#include "bench/launch/options.h"
#include "plan/deck/deck.h"
#include <stdio.h>

/* Is it done in minutes? If not, the sentence with the figure. */
bool dry_run_is_bounded(const deck *d, char *sentence, size_t length);
/* Describes every case of the deck, as the options ask for, printed by the caller's process. json: a file for one
 * object a case; stdout takes them in place of the report; NULL: none. measured: else only objects are written, without
 * memory and time. False: operations of a step are not ordered. */
bool dry_run(const deck *d, const options *o, FILE *json, bool measured);
/* What every pipeline stage of a case that can be laid out does in a step, as lists and as a picture, with makespan and
 * bubble (show_schedule.c). */
void show_schedule(const bench_case *c);
