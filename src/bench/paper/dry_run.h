/* --dry-run: layout, parameters, exact bytes, flops and messages of every case and rank, at any number of ranks. It
 * allocates no training memory and needs no mpirun. */
#pragma once
#include "bench/launch/options.h"
#include "plan/deck/deck.h"
#include <stdio.h>

/* Returns whether the dry run takes minutes at most. If not, writes a sentence with the amount of work. */
bool dry_run_is_bounded(const deck *d, char *sentence, size_t length);
/* Prints a description of every case, as the options ask. json: receives one object for each case, or NULL; if it is
 * stdout, the description is not printed. measured: if false, lays out no case, and writes only objects, without
 * memory and time. Returns false if operations of a step are not ordered. */
bool dry_run(const deck *d, const options *o, FILE *json, bool measured);
/* Prints the actions of every pipeline stage in a step, as lists and as a picture, with makespan and bubble
 * (show_schedule.c). The case can be laid out. */
void show_schedule(const bench_case *c);
