/* Reads HDF5 files that xgsw wrote, from memory. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is it a record that xgsw wrote? Follows no link; looks at the bytes, not at the name. */
bool is_record(const char *path);

/* Reads a whole file that begins as HDF5 files of xgsw do, at most 1 GiB. Returns its bytes, which the caller frees;
 * NULL: no such file. */
void *read_whole(const char *path, size_t *length);

/* An HDF5 file in memory, whose bytes must outlive it. NULL: it is none. */
typedef struct reader reader;
reader *reader_open(void *bytes, size_t length);
void reader_close(reader *r);
/* An attribute of the root: a text of fixed length, cut to `length`; an integer. False: there is none like that. */
bool reader_text(reader *r, const char *name, char *text, size_t length);
bool reader_integer(reader *r, const char *name, int64_t *value);
/* A list or table of integers or of numbers, which the caller frees, and how many there are; NULL: there is none like
 * that. */
int64_t *reader_integers(reader *r, const char *path, int64_t *count);
double *reader_reals(reader *r, const char *path, int64_t *count);
/* A text, or the first of a list, which the caller frees; NULL: there is none. */
char *reader_first_text(reader *r, const char *path);
