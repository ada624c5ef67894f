/* How a machine on paper keeps its submissions. */
#pragma once
#include "machine/queue/backend.h"

submissions *submissions_open(void);
void submissions_close(submissions *s);
/* Keeps one, whose operation is like that note. */
void submissions_add(submissions *s, const submission *x, int note);
