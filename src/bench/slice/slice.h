/* slice/: every distinct operation of one rank of a case of any size, timed alone on one device or on the host.
 * Transfers are not run. */
#pragma once
#include "bench/health/outliers.h"
#include "bench/launch/options.h"
#include "machine/queue/machine.h"
#include "plan/deck/deck.h"
#include <stdio.h>

/* How operations are run: with all multiprocessors; with those that are not left to transfers; with all, next to one
 * resident block. */
typedef enum { WITH_ALL, WITH_LEFT, WITH_RESIDENT, CONDITIONS } condition;
/* What is kept of an operation: quantiles and mean of its seconds, clock and power before and after. NaN: not measured.
 */
enum { MEDIAN, MEAN, P10, P90, CLOCK_BEFORE, CLOCK_AFTER, POWER_BEFORE, POWER_AFTER, SUSTAINED };
typedef struct {
    double of[CONDITIONS][SUSTAINED];
    bool timed;          /* by this slice_measure, as the next */
    double pass[BLOCKS]; /* means of the passes */
} sustained;

/* One rank. work: the distinct computing operations of its step, alone on paper (alone.h); `plain` of them come first,
 * and read no indices. scratch[0]: bytes for any of them. */
typedef struct {
    const bench_case *given;
    int rank, stage, left, plain; /* left: multiprocessors left to transfers */
    int passes;                   /* over all operations, at most BLOCKS; of several with all multiprocessors alone */
    int64_t layers;
    double seconds, flops; /* that each operation runs at least; of the step */
    preparation work;
    size_t bytes;    /* of the largest operation's operands */
    sustained *time; /* [work.notes] */
} slice;

/* One rank of a case, whose operations run for so many seconds. */
slice slice_open(const bench_case *c, int rank, double seconds);
void slice_close(slice *s);
/* Times all operations whose times are NaN. */
void slice_measure(slice *s);
/* Prints the slice as a table with sums, and writes it: one object for the rank, then one for each operation. */
void slice_print(const slice *s);
void slice_write(const slice *s, FILE *json, const char *deck_name);

/* Slices of all cases of the deck, as the options say. json: NULL, or where they are written. Returns false and a
 * sentence if a case has none. */
bool slice_deck(const deck *d, const options *o, FILE *json, char *why, size_t length);
