/* Files of a calibration: NAME.sheet, NAME.exclude, NAME.calibration.h5. */
#pragma once
#include "bench/calibrate/deviations.h"

/* All results of a calibration. */
typedef struct {
    operation_table operations;
    listed_times transfers;
    link_table links;
    double gap; /* seconds between two operations of a queue */
    rank_identity *identity;
    deviations found;
} measured;

/* Checks before the measurement that the files can be written. A sheet that no calibration wrote is not replaced.
 * Empties NAME.exclude. Returns false and a sentence if a file cannot be written. */
bool calibration_reserve(const char *name, char *why, size_t length);
/* Writes the files; call it on rank 0. base: sheet that supplies what was not measured, or NULL. Returns false and a
 * sentence if a file cannot be written. */
bool calibration_write(const measured *m, const char *name, const machine_sheet *base, char *why, size_t length);
