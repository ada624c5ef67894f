/* The record: one HDF5 file per run, written by rank 0 only, whole to a temporary name, fsynced and renamed,
 * so that at any moment the named file is complete. */
#pragma once
#include "bench/result/result.h"
#include "bench/result/run_source.h"

typedef struct record record;

/* The file is that of the deck's first case; "none": nothing is written. `run` and all it names outlive the record.
 * NULL and a sentence in `reason` if the folder cannot be written; touches no existing file. */
record *record_open(const run_source *run, char *reason, size_t length);
/* Adds a finished or skipped case, which outlives the record if there is a file. */
void record_add(record *r, const case_result *result);
/* Writes the whole file; false and a sentence if it could not (the old file is untouched). */
bool record_commit(record *r, char *reason, size_t length);
void record_close(record *r);
