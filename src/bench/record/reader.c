/* The file is read into memory, and HDF5 opens the memory, so HDF5's file locks do not matter. */
#include "bench/record/reader.h"
#include "base/fail.h"
#include "base/memory.h"
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* superblock: signature and version of HDF5's 1.10 format. */
enum { LARGEST_RECORD = 1 << 30 };
static const unsigned char superblock[9] = { 0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n', 3 };

void *read_whole(const char *path, size_t *length)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return NULL;
    bool fits = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > (off_t)sizeof superblock &&
                status.st_size <= LARGEST_RECORD;
    size_t size = fits ? (size_t)status.st_size : 0;
    char *bytes = fits ? malloc(size) : NULL;
    *length = 0;
    for (ssize_t got = 1; bytes && got > 0 && *length<size; *length += got> 0 ? (size_t)got : 0)
        got = read(file, bytes + *length, size - *length);
    close(file);
    if (bytes && memcmp(bytes, superblock, sizeof superblock) == 0) return bytes;
    free(bytes);
    return NULL;
}

struct reader {
    hid_t file;
    H5E_auto2_t print; /* HDF5's error output before this file */
    void *print_data;
};

reader *reader_open(void *bytes, size_t length)
{
    reader *r = allocate(1, sizeof *r, "a reader");
    H5Eget_auto2(H5E_DEFAULT, &r->print, &r->print_data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    r->file = -1;
    if (H5Pset_fapl_core(access, length, false) >= 0 && H5Pset_file_image(access, bytes, length) >= 0)
        r->file = H5Fopen("what may be a file of xgsw", H5F_ACC_RDONLY, access);
    H5Pclose(access);
    if (r->file >= 0) return r;
    reader_close(r);
    return NULL;
}

void reader_close(reader *r)
{
    if (r->file >= 0) H5Fclose(r->file);
    H5Eset_auto2(H5E_DEFAULT, r->print, r->print_data);
    free(r);
}

/* Rejects texts of variable length, for which H5Tget_size returns the size of a pointer. */
bool reader_text(reader *r, const char *name, char *text, size_t length)
{
    hid_t attribute = H5Aopen_by_name(r->file, "/", name, H5P_DEFAULT, H5P_DEFAULT);
    hid_t type = attribute >= 0 ? H5Aget_type(attribute) : -1;
    bool fixed = type >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0;
    char *whole = allocate(fixed ? (int64_t)H5Tget_size(type) + 1 : 1, 1, "an attribute");
    bool found = fixed && H5Aread(attribute, type, whole) >= 0;
    if (found) snprintf(text, length, "%s", whole);
    free(whole);
    if (type >= 0) H5Tclose(type);
    if (attribute >= 0) H5Aclose(attribute);
    return found;
}

bool reader_integer(reader *r, const char *name, int64_t *value)
{
    hid_t attribute = H5Aopen_by_name(r->file, "/", name, H5P_DEFAULT, H5P_DEFAULT);
    bool found = attribute >= 0 && H5Aread(attribute, H5T_NATIVE_INT64, value) >= 0;
    if (attribute >= 0) H5Aclose(attribute);
    return found;
}

/* Reads a dataset as values of `size` bytes of the memory type. */
static void *read_list(reader *r, const char *path, hid_t type, size_t size, int64_t *count)
{
    hid_t set = H5Dopen2(r->file, path, H5P_DEFAULT), space = set >= 0 ? H5Dget_space(set) : -1;
    *count = space >= 0 ? H5Sget_simple_extent_npoints(space) : -1;
    void *values = *count >= 0 ? allocate(*count, size, "a list of the record") : NULL;
    bool read = values && (*count == 0 || H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    if (space >= 0) H5Sclose(space);
    if (set >= 0) H5Dclose(set);
    if (read) return values;
    free(values);
    return NULL;
}

int64_t *reader_integers(reader *r, const char *path, int64_t *count)
{
    return read_list(r, path, H5T_NATIVE_INT64, sizeof(int64_t), count);
}

double *reader_reals(reader *r, const char *path, int64_t *count)
{
    return read_list(r, path, H5T_NATIVE_DOUBLE, sizeof(double), count);
}

char *reader_first_text(reader *r, const char *path)
{
    int64_t count = 0;
    hid_t set = H5Dopen2(r->file, path, H5P_DEFAULT), type = set >= 0 ? H5Dget_type(set) : -1;
    bool fixed = type >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0;
    size_t width = fixed ? H5Tget_size(type) : 0;
    char *all = fixed ? read_list(r, path, type, width, &count) : NULL;
    char *first = all && count > 0 ? allocate((int64_t)width + 1, 1, "a text of the record") : NULL;
    if (first) memcpy(first, all, width);
    free(all);
    if (type >= 0) H5Tclose(type);
    if (set >= 0) H5Dclose(set);
    return first;
}

static bool was_written_by_xgsw(void *bytes, size_t length)
{
    char creator[16] = "";
    reader *r = reader_open(bytes, length);
    bool ours = r && reader_text(r, "creator", creator, sizeof creator) && strcmp(creator, "xgsw") == 0;
    if (r) reader_close(r);
    return ours;
}

bool is_record(const char *path)
{
    size_t length;
    void *bytes = read_whole(path, &length);
    bool ours = bytes && was_written_by_xgsw(bytes, length);
    free(bytes);
    return ours;
}
