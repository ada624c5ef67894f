/* The record: one HDF5 file per run, written by rank 0 only, whole to a temporary name, fsynced and renamed,
 * so that at any moment the named file is complete. */
#pragma once
#include "bench/result.h"

typedef struct record record;

typedef struct {
    const char *path; /* the HDF5 file; "none": nothing is written */
    const char *deck_name, *deck_text;
    size_t deck_length;
    int argc;
    char **argv;
    int ranks;
    const char *hosts;                 /* [ranks] names of HOST_NAME_BYTES each */
    int threads;                       /* OpenMP threads per rank */
    const char *mpi, *hdf5, *products; /* libraries as loaded; hdf5 NULL: record_library */
    const char *cuda;                  /* of the devices' run; NULL or empty: of none */
    const machine_device *devices;     /* [ranks] of such a run, else NULL; copied */
    int64_t cases; /* of the deck: a record of fewer is one of a run that ended early; 0: not said */
} record_source;

/* NULL and a sentence in `reason` if the folder cannot be written; touches no existing file. */
record *record_open(const record_source *source, char *reason, size_t length);
/* Adds a finished case (copies what it needs) or a skipped one (result NULL). */
void record_add(record *r, const bench_case *c, const case_result *result, verdict v);
/* Writes the whole file; false and a sentence if it could not (the old file is untouched). */
bool record_commit(record *r, char *reason, size_t length);
void record_close(record *r);

/* "HDF5 1.10.8" as loaded, in one line; returns line. */
const char *record_library(char *line, size_t length);
