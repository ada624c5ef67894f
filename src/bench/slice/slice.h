/* slice/: --slice times every distinct operation of one rank of a case, alone on one device or on the host. The case
 * may have any size. Transfers are not run. */
#pragma once
#include "bench/health/outliers.h"
#include "bench/launch/options.h"
#include "machine/queue/machine.h"
#include "plan/deck/deck.h"
#include <stdio.h>

/* Conditions of a timing: on all multiprocessors; on all but transfer_sms; on all, next to one resident block like that
 * of a transfer. */
typedef enum { WITH_ALL, WITH_REMAINING, WITH_RESIDENT, CONDITIONS } condition;
/* Results for one operation: quantiles and mean of its seconds, clock (Hz) and power (W) before and after. NaN if not
 * measured. */
enum { MEDIAN, MEAN, P10, P90, CLOCK_BEFORE, CLOCK_AFTER, POWER_BEFORE, POWER_AFTER, SUSTAINED };
typedef struct {
    double value[CONDITIONS][SUSTAINED];
    bool timed;          /* slice_measure timed it, and filled `pass` */
    double pass[BLOCKS]; /* mean seconds of each pass */
} sustained;

/* One rank. work: the distinct computing operations of its step, on paper (alone.h). The first `unindexed` of them read
 * no indices. work.scratch[0]: bytes that suffice for each of them. */
typedef struct {
    const bench_case *given;
    int rank, stage, transfer_sms, unindexed; /* transfer_sms: multiprocessors left to transfers */
    int passes; /* over all operations, at most BLOCKS; if several, only WITH_ALL is timed */
    int64_t layers;
    double seconds, flops; /* seconds: least total time of each operation; flops: of the step */
    preparation work;
    size_t bytes;    /* operands of the largest operation */
    sustained *time; /* [work.notes] */
} slice;

/* Lists the operations of one rank of a case. seconds: least total time of each. */
slice slice_open(const bench_case *c, int rank, double seconds);
void slice_close(slice *s);
/* Times the operations whose median WITH_ALL is NaN. If there are none, does nothing. */
void slice_measure(slice *s);
/* Print the slice as a table with sums, and write it as JSON: an object for the rank, then one for each operation. */
void slice_print(const slice *s);
void slice_write(const slice *s, FILE *json, const char *deck_name);

/* Times and prints slices of all cases, as the options say. json: receives objects, or NULL. Returns false and a
 * sentence if a case cannot be laid out or lacks the rank. */
bool slice_deck(const deck *d, const options *o, FILE *json, char *why, size_t length);
