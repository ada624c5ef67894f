/* A run: the deck's cases one after another, counted, recorded and reported. */
#pragma once
#include "bench/devices.h"
#include "plan/deck/deck.h"

/* devices: empty where no case asks for one. */
typedef struct {
    int argc;
    char **argv;
    const char *deck_name, *deck_text;
    size_t deck_length;
    device_survey devices;
} session;

/* Collective over the world. Returns the exit status of the run: STATUS_PASSED, STATUS_FAILED, or STATUS_REFUSED where
 * the record cannot be written. */
int session_run(const session *s, const deck *d);
