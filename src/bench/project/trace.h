/* A timeline as a Chrome trace, which Perfetto and chrome://tracing open: a process for each stage of each projected
 * case, or for rank 0 of each case that ran (timeline_sink of bench/facts/sink.h), and a thread for each queue. */
#pragma once
#include "machine/timeline/priced.h"
#include <stdio.h>

/* FILE: NULL writes nothing. */
void trace_begin(FILE *to);
/* what: "stage" or "rank". */
void trace_process(FILE *to, int number, const char *what, int at);
void trace_operation(FILE *to, int number, const preparation *work, const timeline_event *e);
void trace_end(FILE *to);
