/* calibrate/: this machine, measured by the ranks of this run before anything is trained: a sheet for --project, and
 * what deviates from its peers. */
#pragma once
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"

typedef struct {
    const deck *deck;
    const char *name;          /* NAME.sheet, NAME.exclude and NAME.calibration.h5 are written */
    double seconds;            /* that each operation runs at least */
    const machine_sheet *base; /* of a GPU: its terms stand where nothing is measured; NULL on a host */
} calibration;

/* Measures, prints and writes. Returns STATUS_PASSED, STATUS_FAILED if something deviates, STATUS_REFUSED and a
 * sentence in `why` if a case cannot be laid out, STATUS_RECORD and one if a file cannot be written. Collective. */
int calibrate(const calibration *of, char *why, size_t length);
