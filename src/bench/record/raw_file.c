/* Datasets are contiguous, allocated early, and start at page boundaries. */
#include "bench/record/raw_file.h"
#include <hdf5.h>
#include <stdio.h>
#include <sys/stat.h>

enum { PAGE = 4096 };

static bool add_dataset(hid_t file, hid_t layout, hid_t links, raw_dataset *d)
{
    char path[64];
    snprintf(path, sizeof path, "/%s/%s", d->group, d->name);
    hid_t space = H5Screate_simple(1, &(hsize_t){ (hsize_t)d->elements }, NULL);
    hid_t type = d->type == BF16 ? H5T_STD_U16LE : H5T_IEEE_F32LE;
    hid_t set = H5Dcreate2(file, path, type, space, links, layout, H5P_DEFAULT);
    haddr_t at = set >= 0 ? H5Dget_offset(set) : HADDR_UNDEF;
    d->at = at == HADDR_UNDEF ? 0 : (int64_t)at;
    H5Dclose(set);
    H5Sclose(space);
    return d->at > 0;
}

static bool add_datasets(hid_t file, raw_dataset *d, int64_t count)
{
    hid_t layout = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_layout(layout, H5D_CONTIGUOUS);
    H5Pset_alloc_time(layout, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(layout, H5D_FILL_TIME_NEVER);
    H5Pset_create_intermediate_group(links, 1);
    int64_t i = 0;
    while (i < count && add_dataset(file, layout, links, &d[i])) i++;
    H5Pclose(links);
    H5Pclose(layout);
    return i == count;
}

static hid_t create(const char *path)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
    H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
    H5Pset_alignment(access, PAGE, PAGE);
    hid_t file = H5Fcreate(path, H5F_ACC_EXCL, H5P_DEFAULT, access);
    H5Pclose(access);
    return file;
}

int64_t raw_file_create(const char *path, raw_dataset *d, int64_t count, char *reason, size_t length)
{
    H5E_auto2_t print;
    void *data;
    struct stat status;
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = create(path);
    bool complete = file >= 0 && add_datasets(file, d, count);
    complete = file >= 0 && H5Fclose(file) >= 0 && complete;
    H5Eset_auto2(H5E_DEFAULT, print, data);
    if (complete && stat(path, &status) == 0 && status.st_size > 0) return status.st_size;
    snprintf(reason, length, "HDF5 cannot lay out %s: is the disk full, or does another run write there?", path);
    return 0;
}
