/* What a calibration leaves: NAME.sheet, NAME.exclude, NAME.calibration.h5. */
#pragma once
#include "bench/calibrate/calibrate.h"
#include "bench/calibrate/deviations.h"

/* All that was measured. Lists are owned. */
typedef struct {
    operation_table operations;
    listed_times transfers;
    link_table links;
    double gap; /* seconds between two operations of a queue */
    rank_identity *identity;
    deviations found;
} measured;

/* On rank 0. Returns false and a sentence if a file cannot be written. */
bool calibration_write(const calibration *of, const measured *m, char *why, size_t length);
