/* run/: a run and its cases, and what ranks agree on.
 *
 * A run: the deck's cases one after another, counted, recorded and reported. */
#pragma once
#include "bench/facts/run_source.h"
#include "bench/run/devices.h"

/* sheet: what cases are compared with, or NULL. devices: empty where no case asks for one. Of `run` the caller gives
 * what it was started with; the rest is found. */
typedef struct {
    run_source run;
    const struct machine_sheet *sheet;
    device_survey devices;
} session;

/* Collective over the world. Returns the exit status of the run: STATUS_PASSED, STATUS_FAILED, STATUS_NOTHING,
 * STATUS_STOPPED, or STATUS_REFUSED where the record cannot be written. */
int session_run(const session *s, const deck *d);
