/* Chrome traces of timelines, for Perfetto and chrome://tracing. A process is a stage of a projected case, or rank 0 of
 * a case that ran (timeline_sink of bench/facts/sink.h). A thread is a queue. */
#pragma once
#include "machine/timeline/priced.h"
#include <stdio.h>

/* Begins a trace. These functions do nothing if `to` is NULL. */
void trace_begin(FILE *to);
/* Names a process. number: the case; what: "stage" or "rank"; at: its number. */
void trace_process(FILE *to, int number, const char *what, int at);
/* Writes one event of a timeline. */
void trace_operation(FILE *to, int number, const preparation *work, const timeline_event *e);
void trace_end(FILE *to);
