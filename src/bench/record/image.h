/* HDF5 file in memory. HDF5 never writes to the disk, so a full disk or a limit cannot cause an error inside the
 * library. The complete file has no "open" flag. Only image.c uses HDF5's file drivers. */
#pragma once
#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    unsigned char *bytes; /* owned by HDF5 while the file is open, then by us */
    size_t capacity;
    bool closed; /* HDF5 has returned the bytes */
} image;

/* Sets a file-access list so that HDF5 keeps the file in `i`. Returns a negative value on failure, like HDF5. */
herr_t image_install(hid_t access, image *i);
/* Returns the length of the closed file, from its superblock; 0 if it is not a closed file of the expected format. */
size_t image_length(const image *i);
