/* A timeline as a Chrome trace, which Perfetto and chrome://tracing open: a process for each stage of each case, a
 * thread for each queue. */
#pragma once
#include "machine/timeline/priced.h"
#include <stdio.h>

/* FILE: NULL writes nothing. */
void trace_begin(FILE *to);
void trace_stage(FILE *to, int number, int stage);
void trace_operation(FILE *to, int number, const preparation *work, const timeline_event *e);
void trace_end(FILE *to);
