/* slice/: every distinct operation of one rank of a case of any size, timed alone on one device or host; no transfer. */
#pragma once
#include "bench/launch/options.h"
#include "bench/slice/sustain.h"
#include "plan/deck/deck.h"
#include <stdio.h>

/* How operations are run: with all multiprocessors; with those that are not left to transfers; with all, next to one
 * resident block. On the host only the first. */
typedef enum { WITH_ALL, WITH_LEFT, WITH_RESIDENT, CONDITIONS } condition;

/* One rank's step. note: its operations and how often each runs; which[i]: the slice's operation that note i is. */
typedef struct {
    int rank, stage;
    int64_t layers;
    double flops; /* of the step, as submitted */
    preparation noted;
    int *which;
} sliced_rank;

/* noted: the distinct operations of all ranks, alone on paper (alone.h). */
typedef struct {
    const bench_case *given;
    preparation noted;
    sustained (*of)[CONDITIONS]; /* [noted.notes] */
    size_t operand_bytes;        /* of the largest operation */
    int ranks, left;             /* left: multiprocessors left to transfers */
    sliced_rank *rank;
    double seconds; /* that each operation ran at least */
} slice;

/* Returns how often the rank's step runs note i: in all, or by its layers in one phase. */
int64_t slice_times(const sliced_rank *r, int i);
/* Returns the seconds of its computing operations: of the step; of one layer's phase for one microbatch. */
double slice_step_seconds(const slice *s, const sliced_rank *r, condition with);
double slice_layer_seconds(const slice *s, const sliced_rank *r, condition with, phase p);

/* Prints the slice; writes it as one object for the case, one for each operation and one for each rank. */
void slice_print(const slice *s);
void slice_write(const slice *s, FILE *json, const char *deck_name);

/* Measures all cases of the deck as the options say. json: NULL, or where they are written. Returns false and a
 * sentence if nothing can be measured. */
bool slice_deck(const deck *d, const options *o, FILE *json, char *why, size_t length);
