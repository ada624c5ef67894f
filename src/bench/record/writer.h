/* Writes one HDF5 file, addressed by paths, into memory. Every HDF5 call is checked; after the first that fails nothing
 * more is asked of HDF5 for this file, and writer_close says what failed. HDF5's own types stay behind this door. */
#pragma once
#include "bench/facts/datum.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct writer writer;

/* "HDF5 1.10.8", as loaded; returns line. */
const char *writer_library(char *line, size_t length);

writer *writer_open(void);
/* Ends the file. True: *bytes (owned by the caller: free) holds it whole. False: a sentence in `reason`. */
bool writer_close(writer *w, void **bytes, size_t *length, char *reason, size_t reason_length);

/* A group; nexus_class: "NXentry", "NXdata", "NXcollection". */
void writer_group(writer *w, const char *path, const char *nexus_class);

/* Attributes of a group or dataset. */
void writer_attribute(writer *w, const char *path, const char *name, datum value);
void writer_attribute_texts(writer *w, const char *path, const char *name, const char *const *values, int64_t count);

/* Datasets: one value, or a list. All numbers have units; flags and texts none. */
void writer_value(writer *w, const char *path, const char *units, datum value);
void writer_reals(writer *w, const char *path, const char *units, const double *values, int64_t count);
void writer_integers(writer *w, const char *path, const char *units, const int64_t *values, int64_t count);
void writer_texts(writer *w, const char *path, const char *const *values, int64_t count);
/* values[rows][columns] */
void writer_table(writer *w, const char *path, const char *units, const double *values, int64_t rows, int64_t columns);

void writer_integer_table(writer *w, const char *path, const int64_t *values, int64_t rows, int64_t columns);

/* FOLDER/NAME. */
typedef struct {
    char path[256];
} writer_path;
writer_path writer_join(const char *folder, const char *name);
