/* The submissions that a machine on paper keeps. */
#pragma once
#include "machine/queue/backend.h"

submissions *submissions_open(void);
void submissions_close(submissions *s);
/* Adds a submission. note: index of its operation in the notes, or -1. */
void submissions_add(submissions *s, const submission *x, int note);
