/* Every distinct computing operation of a deck, timed on all ranks at the same time. */
#pragma once
#include "bench/health/outliers.h"
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"

/* Times of all operations on all ranks. Complete on rank 0 only. Freed by operations_free. */
typedef struct {
    int ranks, operations;
    listed_time *listed; /* [operations]: key and work; seconds: median over the ranks that have it */
    double *seconds;     /* [operations, ranks], means; NaN if the rank has no such operation */
    double p10, p90;     /* 10th and 90th percentile of a rank's passes, divided by their mean */
    rank_pace *pace;     /* [ranks]: computing of one step of each case, compared with ranks with the same work */
} operation_table;

/* Times the operations. seconds: least total time of each. Collective over the world. */
operation_table operations_measure(const deck *d, double seconds);
void operations_free(operation_table *t);
