/* The memory that an HDF5 file lives in while it is written: HDF5 never sees the disk, so a full disk or a limit
 * cannot strike inside the library, and the bytes taken after H5Fclose carry no "open" flag. The door to HDF5's file
 * drivers. */
#pragma once
#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    unsigned char *bytes; /* HDF5's while the file is open; ours once it is closed */
    size_t capacity;
    bool closed; /* HDF5 gave the bytes away */
} image;

/* Makes a file-access list keep its file in `i`. Negative on failure, as HDF5 calls are. */
herr_t image_install(hid_t access, image *i);
/* Length of the closed file, from its superblock; 0 if this is no closed file of the expected format. */
size_t image_length(const image *i);
