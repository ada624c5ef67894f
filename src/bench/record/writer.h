/* Writer of one HDF5 file in memory. Every HDF5 call is checked. After the first failure all calls do nothing, and
 * writer_close reports the failure. This header hides HDF5's types. */
#pragma once
#include "bench/facts/datum.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct writer writer;

/* Writes the version of the library, such as "HDF5 1.10.8". Returns line. */
const char *writer_library(char *line, size_t length);

writer *writer_open(void);
/* Closes the file. Returns true and the whole file in *bytes (owned by the caller), or false and a reason. */
bool writer_close(writer *w, void **bytes, size_t *length, char *reason, size_t reason_length);

/* Creates a group. nexus_class: "NXentry", "NXdata", "NXcollection". */
void writer_group(writer *w, const char *path, const char *nexus_class);

/* Write attributes of a group or dataset. */
void writer_attribute(writer *w, const char *path, const char *name, datum value);
void writer_attribute_texts(writer *w, const char *path, const char *name, const char *const *values, int64_t count);

/* Write datasets of one value or a list. Numbers have units; flags and texts have none. */
void writer_value(writer *w, const char *path, const char *units, datum value);
void writer_reals(writer *w, const char *path, const char *units, const double *values, int64_t count);
void writer_integers(writer *w, const char *path, const char *units, const int64_t *values, int64_t count);
void writer_texts(writer *w, const char *path, const char *const *values, int64_t count);
/* values[rows][columns] */
void writer_table(writer *w, const char *path, const char *units, const double *values, int64_t rows, int64_t columns);

void writer_integer_table(writer *w, const char *path, const int64_t *values, int64_t rows, int64_t columns);

/* writer_join returns FOLDER/NAME. */
typedef struct {
    char path[256];
} writer_path;
writer_path writer_join(const char *folder, const char *name);
