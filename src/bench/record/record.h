/* record/: what is kept of a run: the HDF5 file, its journal, JSON.
 *
 * The record: one HDF5 file per run, written by rank 0 only, whole to a temporary name, fsynced and renamed,
 * so that at any moment the named file is complete. */
#pragma once
#include "bench/facts/result.h"
#include "bench/facts/run_source.h"
#include "bench/record/writer.h"

typedef struct record record;

/* At run->place. `run` and all it names outlive the record. Touches no file. */
record *record_open(const run_source *run);
/* Adds a finished or skipped case, which outlives the record if there is a file. */
void record_add(record *r, const case_result *result);
/* Writes the whole file; false and a sentence if it could not (the old file is untouched). Where the place is none:
 * nothing. */
bool record_commit(record *r, char *reason, size_t length);
void record_close(record *r);

/* The root's attributes of a record that holds these. */
void record_write_root(writer *w, const case_result *const *result, int64_t count, int64_t planned);
