/* What a calibration leaves: NAME.sheet, NAME.exclude, NAME.calibration.h5. */
#pragma once
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

/* Finds out whether the files can be written, before anything is measured: a sheet of that name that no calibration
 * wrote stays. Returns false and a sentence if not. */
bool calibration_reserve(const char *name, char *why, size_t length);
/* base: the sheet whose terms stand where nothing is measured, or NULL. On rank 0. Returns false and a sentence if a
 * file cannot be written. */
bool calibration_write(const measured *m, const char *name, const machine_sheet *base, char *why, size_t length);
