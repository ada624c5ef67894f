/* Sorted, so that the order of writing, which a reader of the file does not see, is no part of a digest. */
#include "bench/record/manifest.h"
#include "base/fail.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_room(manifest *m)
{
    if (m->lines < m->room) return;
    m->room = m->room ? 2 * m->room : 512;
    m->line = realloc(m->line, m->room * sizeof *m->line);
    if (!m->line) FAIL("out of memory for %zu lines of the record's manifest", m->room);
}

void manifest_add(manifest *m, const manifest_item *x)
{
    char hex[SHA256_HEX], line[1024];
    sha256_of(x->bytes, x->length, hex);
    snprintf(line, sizeof line, "%s%s%s %s %s %s", x->path, x->attribute ? "@" : "", x->attribute ? x->attribute : "",
             x->type, x->shape, hex);
    make_room(m);
    m->line[m->lines] = strdup(line);
    if (!m->line[m->lines++]) FAIL("out of memory for a line of the record's manifest");
}

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void manifest_digest(const manifest *m, size_t from, char hex[SHA256_HEX])
{
    sha256 s;
    size_t lines = m->lines - from;
    const char **sorted = malloc((lines + 1) * sizeof *sorted);
    if (!sorted) FAIL("out of memory to sort %zu lines of the record's manifest", lines);
    for (size_t i = 0; i < lines; i++) sorted[i] = m->line[from + i];
    qsort(sorted, lines, sizeof *sorted, by_bytes);
    sha256_open(&s);
    for (size_t i = 0; i < lines; i++) {
        sha256_add(&s, sorted[i], strlen(sorted[i]));
        sha256_add(&s, "\n", 1);
    }
    sha256_close(&s, hex);
    free(sorted);
}

void manifest_free(manifest *m)
{
    for (size_t i = 0; i < m->lines; i++) free(m->line[i]);
    free(m->line);
    *m = (manifest){ 0 };
}
