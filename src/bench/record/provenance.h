/* Where a run comes from: deck, binary, libraries, hosts, environment. Collected once, when the record opens. */
#pragma once
#include "bench/facts/run_source.h"
#include "bench/record/writer.h"

typedef struct provenance provenance;

/* `run` outlives it. */
provenance *provenance_open(const run_source *run);
/* Writes the group /provenance, with the time of writing. */
void provenance_write(const provenance *p, writer *w);
void provenance_close(provenance *p);
