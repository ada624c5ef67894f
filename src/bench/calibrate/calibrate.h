/* calibrate/: xgsw --calibrate. The ranks of this run measure the machine and train nothing. Results: a sheet for
 * --project, and a list of ranks and links that are slower than their peers. */
#pragma once
#include "plan/deck/deck.h"
#include "plan/sheet/sheet.h"

typedef struct {
    const deck *deck;
    const char *name;          /* of the files: NAME.sheet, NAME.exclude, NAME.calibration.h5 */
    double seconds;            /* least total time of each operation */
    const machine_sheet *base; /* supplies the terms that are not measured; NULL on a host */
} calibration;

/* Measures the machine, prints the results and writes the files. Returns STATUS_PASSED; STATUS_FAILED if something
 * deviates; STATUS_REFUSED if a case cannot be calibrated or a file cannot be replaced; STATUS_RECORD if writing a file
 * fails. `why` gets a sentence for the last two. Collective over the world. */
int calibrate(const calibration *c, char *why, size_t length);
