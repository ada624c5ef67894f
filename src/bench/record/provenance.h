/* Origin of a run: deck, binary, libraries, hosts, environment. Collected once, when the record is opened. */
#pragma once
#include "bench/facts/run_source.h"
#include "bench/record/writer.h"

typedef struct provenance provenance;

/* `run` must outlive the result. */
provenance *provenance_open(const run_source *run);
/* Writes the group /provenance with the current time. */
void provenance_write(const provenance *p, writer *w);
void provenance_close(provenance *p);
