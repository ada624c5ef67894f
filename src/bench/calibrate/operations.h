/* Every distinct computing operation of a deck, timed on all ranks at the same time. */
#pragma once
#include "bench/health/outliers.h"
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"

/* On rank 0; empty on the others. Lists are owned. */
typedef struct {
    int ranks, operations;
    listed_time *of;    /* [operations]: key and work; seconds: the median of the ranks that have it */
    double *seconds;    /* [operations, ranks], means; NaN: the rank has no such operation */
    double least, most; /* the tenth and the ninetieth percentile of a rank's passes, as parts of their mean */
    rank_pace *pace;    /* [ranks]: of the computing of a step of each case, next to ranks with the same work */
} operation_table;

/* seconds: that each operation runs at least. Collective over the world. */
operation_table operations_measure(const deck *d, double seconds);
void operations_free(operation_table *t);
