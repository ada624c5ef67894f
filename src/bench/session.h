/* A run: the deck's cases one after another, counted, recorded and reported. */
#pragma once
#include "plan/deck.h"

typedef struct { int argc; char **argv; const char *deck_name; const char *deck_text; size_t deck_length; } session;

/* Collective over the world. Returns the exit status of the run: STATUS_PASSED, STATUS_FAILED or STATUS_RECORD. */
int session_run(const session *s, const deck *d);
