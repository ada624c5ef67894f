/* Layout of an HDF5 file whose numbers the caller writes at given offsets with write, which reports a full disk. Other
 * programs read the file with HDF5. */
#pragma once
#include "base/dtype.h"
#include <stdbool.h>
#include <stdint.h>

/* BF16 is stored as unsigned 16-bit integers. */
typedef struct {
    char group[24], name[24]; /* dataset /GROUP/NAME */
    dtype type;               /* F32 or BF16 */
    int64_t elements;
    int64_t at; /* result: offset of its first byte in the file */
} raw_dataset;

/* Creates a new file with `count` datasets; datasets of one group follow each other in the list. Returns the file's
 * length in bytes. On failure returns 0 and writes a reason. */
int64_t raw_file_create(const char *path, raw_dataset *d, int64_t count, char *reason, size_t length);
