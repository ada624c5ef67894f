/* Files have HDF5's 1.10 format, strings of fixed length, and Fletcher checksums on lists. Single values are stored
 * compactly in the object's header, which has its own checksum. */
#include "bench/record/writer.h"
#include "base/memory.h"
#include "bench/record/image.h"
#include "machine/op/activity.h"
#include <stdio.h>
#include <string.h>

enum { COMPACT_BYTES = 32768, CHUNK_VALUES = 1 << 17, REASON_BYTES = 512 };

struct writer {
    image *image;
    hid_t file, flag_type;
    bool failed;
    char reason[REASON_BYTES];
    H5E_auto2_t print; /* HDF5's error output before this file */
    void *print_data;
};

/* Makes the call, unless an earlier one failed. Returns its result, or -1 on failure. */
#define CALL(w, call) ((w)->failed ? -1 : checked(w, (hid_t)(call), #call))

/* Takes the innermost message of HDF5's error stack. */
static herr_t innermost_message(unsigned n, const H5E_error2_t *error, void *data)
{
    if (n == 0 && error->desc) snprintf(data, 128, "%s", error->desc);
    return 0;
}

static hid_t checked(writer *w, hid_t value, const char *call)
{
    if (value >= 0) return value;
    char message[128] = "no reason given";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost_message, message);
    snprintf(w->reason, sizeof w->reason, "HDF5 failed in %.*s: %s", (int)strcspn(call, "("), call, message);
    w->failed = true;
    return -1;
}

/* Makes the type that h5py uses for bool. */
static hid_t make_flag_type(writer *w)
{
    static const signed char no = 0, yes = 1;
    hid_t type = CALL(w, H5Tenum_create(H5T_STD_I8LE));
    CALL(w, H5Tenum_insert(type, "FALSE", &no));
    CALL(w, H5Tenum_insert(type, "TRUE", &yes));
    return type;
}

const char *writer_library(char *line, size_t length)
{
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    snprintf(line, length, "HDF5 %u.%u.%u", major, minor, release);
    return line;
}

writer *writer_open(void)
{
    writer *w = allocate(1, sizeof *w, "the record");
    image *i = allocate(1, sizeof *i, "the record");
    w->image = i;
    H5Eget_auto2(H5E_DEFAULT, &w->print, &w->print_data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    char name[64]; /* no such file exists; HDF5 needs a name that is not open */
    snprintf(name, sizeof name, "xgsw record %p", (void *)i);
    hid_t access = CALL(w, H5Pcreate(H5P_FILE_ACCESS));
    CALL(w, H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110));
    CALL(w, H5Pset_fclose_degree(access, H5F_CLOSE_STRONG));
    CALL(w, image_install(access, i));
    w->file = CALL(w, H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access));
    CALL(w, H5Pclose(access));
    w->flag_type = make_flag_type(w);
    return w;
}

/* After a failure the file stays open inside HDF5, so its image is not freed. */
bool writer_close(writer *w, void **bytes, size_t *length, char *reason, size_t reason_length)
{
    CALL(w, H5Tclose(w->flag_type));
    CALL(w, H5Fclose(w->file));
    *length = w->failed ? 0 : image_length(w->image);
    *bytes = w->image->bytes;
    bool complete = *length > 0;
    if (!complete)
        snprintf(reason, reason_length, "%s",
                 w->failed ? w->reason : "HDF5 closed the record, but left no file of its 1.10 format");
    else free(w->image);
    H5Eset_auto2(H5E_DEFAULT, w->print, w->print_data);
    free(w);
    return complete;
}

void writer_group(writer *w, const char *path, const char *nexus_class)
{
    hid_t group = CALL(w, H5Gcreate2(w->file, path, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    CALL(w, H5Gclose(group));
    writer_attribute(w, path, "NX_class", datum_text(nexus_class));
}

/* Returns a string type of exactly `length` bytes, padded with zeros. */
static hid_t string_type(writer *w, size_t length)
{
    hid_t type = CALL(w, H5Tcopy(H5T_C_S1));
    CALL(w, H5Tset_size(type, length ? length : 1));
    CALL(w, H5Tset_strpad(type, H5T_STR_NULLPAD));
    CALL(w, H5Tset_cset(type, H5T_CSET_UTF8));
    return type;
}

static hid_t make_space(writer *w, int dimensions, const hsize_t *size)
{
    return dimensions ? CALL(w, H5Screate_simple(dimensions, size, NULL)) : CALL(w, H5Screate(H5S_SCALAR));
}

static void write_attribute(writer *w, const char *path, const char *name, hid_t type, hsize_t count, const void *value)
{
    hid_t space = make_space(w, count ? 1 : 0, &count);
    hid_t attribute =
        CALL(w, H5Acreate_by_name(w->file, path, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    CALL(w, H5Awrite(attribute, type, value));
    CALL(w, H5Aclose(attribute));
    CALL(w, H5Sclose(space));
}

/* Lists have checksummed chunks. Empty lists have no bytes, and single values are in the header. */
static hid_t make_layout(writer *w, int dimensions, const hsize_t *size)
{
    hid_t layout = CALL(w, H5Pcreate(H5P_DATASET_CREATE));
    CALL(w, H5Pset_obj_track_times(layout, false));
    if (dimensions == 0) {
        CALL(w, H5Pset_layout(layout, H5D_COMPACT));
        return layout;
    }
    hsize_t columns = dimensions > 1 ? size[1] : 1, rows = columns ? CHUNK_VALUES / columns : 0;
    hsize_t chunk[2] = { rows < 1 ? 1 : rows < size[0] ? rows : size[0], columns };
    if (size[0] == 0 || columns == 0) return layout;
    CALL(w, H5Pset_chunk(layout, dimensions, chunk));
    CALL(w, H5Pset_fletcher32(layout));
    return layout;
}

static void add_dataset(writer *w, const char *path, const char *units, hid_t type, int dimensions, const hsize_t *size,
                        const void *value)
{
    hid_t space = make_space(w, dimensions, size), layout = make_layout(w, dimensions, size);
    hid_t set = CALL(w, H5Dcreate2(w->file, path, type, space, H5P_DEFAULT, layout, H5P_DEFAULT));
    bool empty = dimensions && size[0] == 0;
    if (!empty) CALL(w, H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value));
    CALL(w, H5Dclose(set));
    CALL(w, H5Pclose(layout));
    CALL(w, H5Sclose(space));
    activity_progress(); /* a table of steps x ranks may take seconds */
    if (units) writer_attribute(w, path, "units", datum_text(units));
}

/* Returns the texts one after another, each padded with zeros to *width bytes; owned by the caller. */
static char *pad_texts(const char *const *values, int64_t count, size_t *width)
{
    *width = 1;
    for (int64_t i = 0; i < count; i++) *width = strlen(values[i]) > *width ? strlen(values[i]) : *width;
    char *padded = allocate(count, *width, "the texts of the record");
    for (int64_t i = 0; i < count; i++) memcpy(padded + (size_t)i * *width, values[i], strlen(values[i]));
    return padded;
}

void writer_attribute_texts(writer *w, const char *path, const char *name, const char *const *values, int64_t count)
{
    size_t width;
    char *padded = pad_texts(values, count, &width);
    hid_t type = string_type(w, width);
    write_attribute(w, path, name, type, (hsize_t)count, padded);
    CALL(w, H5Tclose(type));
    free(padded);
}

void writer_attribute(writer *w, const char *path, const char *name, datum v)
{
    hid_t text = v.kind == VALUE_TEXT ? string_type(w, strlen(v.text)) : -1;
    switch (v.kind) {
    case VALUE_REAL: write_attribute(w, path, name, H5T_NATIVE_DOUBLE, 0, &v.real); break;
    case VALUE_INTEGER: write_attribute(w, path, name, H5T_NATIVE_INT64, 0, &v.integer); break;
    case VALUE_FLAG: write_attribute(w, path, name, w->flag_type, 0, &(signed char){ v.integer != 0 }); break;
    case VALUE_TEXT: write_attribute(w, path, name, text, 0, v.text); break;
    }
    if (v.kind == VALUE_TEXT) CALL(w, H5Tclose(text));
}

/* Writes a long text as a list with one entry, because a header has at most 64 KiB. */
static void write_text(writer *w, const char *path, const char *text)
{
    size_t length = strlen(text);
    hid_t type = string_type(w, length);
    add_dataset(w, path, NULL, type, length > COMPACT_BYTES, &(hsize_t){ 1 }, text);
    CALL(w, H5Tclose(type));
}

void writer_value(writer *w, const char *path, const char *units, datum v)
{
    switch (v.kind) {
    case VALUE_REAL: add_dataset(w, path, units, H5T_NATIVE_DOUBLE, 0, NULL, &v.real); break;
    case VALUE_INTEGER: add_dataset(w, path, units, H5T_NATIVE_INT64, 0, NULL, &v.integer); break;
    case VALUE_FLAG: add_dataset(w, path, NULL, w->flag_type, 0, NULL, &(signed char){ v.integer != 0 }); break;
    case VALUE_TEXT: write_text(w, path, v.text); break;
    }
}

void writer_reals(writer *w, const char *path, const char *units, const double *values, int64_t count)
{
    add_dataset(w, path, units, H5T_NATIVE_DOUBLE, 1, &(hsize_t){ (hsize_t)count }, values);
}

void writer_integers(writer *w, const char *path, const char *units, const int64_t *values, int64_t count)
{
    add_dataset(w, path, units, H5T_NATIVE_INT64, 1, &(hsize_t){ (hsize_t)count }, values);
}

void writer_texts(writer *w, const char *path, const char *const *values, int64_t count)
{
    size_t width;
    char *padded = pad_texts(values, count, &width);
    hid_t type = string_type(w, width);
    add_dataset(w, path, NULL, type, 1, &(hsize_t){ (hsize_t)count }, padded);
    CALL(w, H5Tclose(type));
    free(padded);
}

void writer_table(writer *w, const char *path, const char *units, const double *values, int64_t rows, int64_t columns)
{
    add_dataset(w, path, units, H5T_NATIVE_DOUBLE, 2, (hsize_t[]){ (hsize_t)rows, (hsize_t)columns }, values);
}

void writer_integer_table(writer *w, const char *path, const int64_t *values, int64_t rows, int64_t columns)
{
    add_dataset(w, path, "1", H5T_NATIVE_INT64, 2, (hsize_t[]){ (hsize_t)rows, (hsize_t)columns }, values);
}

writer_path writer_join(const char *folder, const char *name)
{
    writer_path joined;
    snprintf(joined.path, sizeof joined.path, "%s/%s", folder, name);
    return joined;
}
