/* Reads HDF5 files that xgsw wrote, from memory. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns whether the file's contents are a record of xgsw. Follows no link. */
bool is_record(const char *path);

/* Reads a file of at most 1 GiB. Returns its bytes, owned by the caller; NULL if it begins with another signature than
 * HDF5 files of xgsw. */
void *read_whole(const char *path, size_t *length);

/* Reader of an HDF5 file in memory. The bytes must outlive it. reader_open returns NULL if they are no HDF5 file. */
typedef struct reader reader;
reader *reader_open(void *bytes, size_t length);
void reader_close(reader *r);
/* Read an attribute of the root: a text of fixed length, cut to `length`, or an integer. Return false if none exists.
 */
bool reader_text(reader *r, const char *name, char *text, size_t length);
bool reader_integer(reader *r, const char *name, int64_t *value);
/* Return a list or table of numbers, owned by the caller, and the number of entries; NULL if none exists. */
int64_t *reader_integers(reader *r, const char *path, int64_t *count);
double *reader_reals(reader *r, const char *path, int64_t *count);
/* Returns a text, or the first of a list, owned by the caller; NULL if there is none. */
char *reader_first_text(reader *r, const char *path);
