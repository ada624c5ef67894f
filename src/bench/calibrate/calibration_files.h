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
    deviations deviations;
} calibration_data;

/* Empties NAME.exclude before the measurement. Returns false and a sentence if it cannot, or if NAME.sheet exists and
 * no calibration wrote it. */
bool calibration_prepare_files(const char *name, char *why, size_t length);
/* Writes the files; call it on rank 0. base: sheet that supplies what was not measured, or NULL. Returns false and a
 * sentence if a file cannot be written. */
bool calibration_write(const calibration_data *m, const char *name, const machine_sheet *base, char *why,
                       size_t length);
