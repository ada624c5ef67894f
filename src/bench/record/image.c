/* Memory callbacks for HDF5's file images. */
#include "bench/record/image.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE_INCREMENT = 1 << 18 };
/* Offsets in a superblock of version 2 or 3 (HDF5 file format 3.0, section II.A). */
enum { SUPERBLOCK_VERSION = 8, SUPERBLOCK_FLAGS = 11, SUPERBLOCK_END = 28, SUPERBLOCK_BYTES = 48 };

static void *image_allocate(size_t size, H5FD_file_image_op_t operation, void *data)
{
    (void)operation;
    image *i = data;
    i->bytes = malloc(size);
    i->capacity = i->bytes ? size : 0;
    return i->bytes;
}

/* On failure HDF5 keeps the old memory. */
static void *image_resize(void *bytes, size_t size, H5FD_file_image_op_t operation, void *data)
{
    (void)operation;
    image *i = data;
    unsigned char *larger = realloc(bytes, size);
    if (!larger) return NULL;
    i->bytes = larger;
    i->capacity = size;
    return larger;
}

static herr_t image_free(void *bytes, H5FD_file_image_op_t operation, void *data)
{
    image *i = data;
    if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE && bytes == i->bytes) i->closed = true;
    else free(bytes);
    return 0;
}

/* HDF5 copies file-access lists, but all copies have the same image. */
static void *image_copy_data(void *data) { return data; }
static herr_t image_release(void *data)
{
    (void)data;
    return 0;
}

herr_t image_install(hid_t access, image *i)
{
    H5FD_file_image_callbacks_t callbacks = { .image_malloc = image_allocate,
                                              .image_memcpy = NULL,
                                              .image_realloc = image_resize,
                                              .image_free = image_free,
                                              .udata_copy = image_copy_data,
                                              .udata_free = image_release,
                                              .udata = i };
    if (H5Pset_fapl_core(access, IMAGE_INCREMENT, false) < 0) return -1;
    return H5Pset_file_image_callbacks(access, &callbacks);
}

size_t image_length(const image *i)
{
    static const unsigned char signature[8] = { 0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n' };
    if (!i->closed || i->capacity < SUPERBLOCK_BYTES || memcmp(i->bytes, signature, sizeof signature) != 0) return 0;
    if (i->bytes[SUPERBLOCK_VERSION] < 2 || i->bytes[SUPERBLOCK_VERSION] > 3 || i->bytes[SUPERBLOCK_FLAGS] != 0)
        return 0;
    uint64_t end = 0;
    for (int byte = 7; byte >= 0; byte--) end = end << 8 | i->bytes[SUPERBLOCK_END + byte];
    return end <= i->capacity ? (size_t)end : 0;
}
