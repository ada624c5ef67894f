/* run/: a run and its cases, and agreements between ranks.
 *
 * A session runs the deck's cases one after another, and counts, records and reports them. */
#pragma once
#include "bench/facts/run_source.h"
#include "bench/run/devices.h"

/* run: the caller sets how the program was started; session_run sets the rest. sheet: machine sheet that predicts step
 * times, or NULL. devices: empty if no case needs a device. */
typedef struct {
    run_source run;
    const struct machine_sheet *sheet;
    device_survey devices;
} session;

/* Runs all cases. Returns the exit status: STATUS_PASSED, STATUS_FAILED, STATUS_NOTHING, STATUS_STOPPED, or
 * STATUS_REFUSED if the record cannot be written. Collective over the world. */
int session_run(const session *s, const deck *d);
