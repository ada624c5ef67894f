/* Where a run comes from: deck, binary, libraries, hosts, environment. Collected once, when the record opens. */
#pragma once
#include "bench/record/record.h"
#include "bench/record/writer.h"

typedef struct provenance provenance;

provenance *provenance_open(const record_source *source);
/* The group /provenance, with the time of writing. */
void provenance_write(const provenance *p, writer *w);
void provenance_close(provenance *p);

/* "2026-01-31T23:59:59Z" */
enum { TIME_BYTES = 32 };
void provenance_now(char out[TIME_BYTES]);
