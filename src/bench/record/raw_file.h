/* Lays out an HDF5 file whose numbers the caller writes by itself, at the bytes that it is told: so no call of HDF5 is
 * in the way of large data, and a full disk is an error of write. Other programs read the file with HDF5. */
#pragma once
#include "base/dtype.h"
#include <stdbool.h>
#include <stdint.h>

/* BF16 becomes unsigned integers of 16 bits. */
typedef struct {
    char group[24], name[24]; /* dataset /GROUP/NAME */
    dtype type;               /* F32 or BF16 */
    int64_t elements;
    int64_t at; /* set: its first byte in the file */
} raw_dataset;

/* Creates the file, which must not exist, with `count` datasets. Datasets of one group follow one another in the list.
 * Returns the file's length in bytes; 0: a sentence in `reason`. */
int64_t raw_file_create(const char *path, raw_dataset *d, int64_t count, char *reason, size_t length);
