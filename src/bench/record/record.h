/* record/: the HDF5 file, the journal and the JSON of a run.
 *
 * The record: one HDF5 file per run, written by rank 0 only. Each write creates a temporary file, calls fsync and
 * renames it, so the named file is always complete. */
#pragma once
#include "bench/facts/result.h"
#include "bench/facts/run_source.h"
#include "bench/record/writer.h"

typedef struct record record;

/* Opens the record at run->place without touching a file. `run` and its members must outlive the record. */
record *record_open(const run_source *run);
/* Adds a finished or skipped case, which must outlive the record if there is a file. */
void record_add(record *r, const case_result *result);
/* Writes the whole file. On failure returns false and writes a reason; the old file is unchanged. Does nothing if the
 * deck asks for no record. */
bool record_commit(record *r, char *reason, size_t length);
void record_close(record *r);

/* Writes the root's attributes of a record with these cases. */
void record_write_root(writer *w, const case_result *const *result, int64_t count, int64_t planned);
