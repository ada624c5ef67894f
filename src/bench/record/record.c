/* The record knows all finished cases and writes the file anew at each commit. */
#include "bench/record/record.h"
#include "base/fail.h"
#include "bench/record/case_group.h"
#include "bench/record/provenance.h"
#include "bench/record/replace.h"
#include "bench/record/writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_VERSION = 2 };

struct record {
    char path[PATH_LENGTH]; /* links followed, so that they stay */
    bool none;
    provenance *provenance;
    int64_t planned;
    const case_result **result;
    int64_t count;
};

const char *record_library(char *line, size_t length)
{
    writer_library(line, length);
    return line;
}

/* A target that exists must be empty or an HDF5 file: a record never replaces a deck. */
static bool may_replace(const char *path, char *reason, size_t length)
{
    static const char signature[] = "\211HDF\r\n\032\n";
    char first[8];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(first, 1, sizeof first, f) : 0;
    if (f) fclose(f);
    if (n == 0 || (n == sizeof first && memcmp(first, signature, n) == 0)) return true;
    snprintf(reason, length, "%s exists and is no HDF5 file; it is not replaced", path);
    return false;
}

record *record_open(const run_source *run, char *reason, size_t length)
{
    record *r = calloc(1, sizeof *r);
    if (!r) FAIL("out of memory for the record");
    const char *path = run->deck->item[0].record;
    r->none = strcmp(path, "none") == 0;
    r->planned = run->deck->cases;
    char *real = realpath(path, NULL);
    snprintf(r->path, sizeof r->path, "%s", real ? real : path);
    free(real);
    if (!r->none && (!replace_possible(r->path, reason, length) || !may_replace(r->path, reason, length))) {
        free(r);
        return NULL;
    }
    r->provenance = provenance_open(run);
    return r;
}

void record_add(record *r, const case_result *result)
{
    const case_result **longer = realloc(r->result, (size_t)(r->count + 1) * sizeof *longer);
    if (!longer) FAIL("out of memory for case %d of the record", result->given->number);
    r->result = longer;
    r->result[r->count++] = result;
}

static writer_path group_of(const case_result *c)
{
    writer_path group;
    snprintf(group.path, sizeof group.path, "/case_%04d", c->given->number);
    return group;
}

/* h5web follows `default` from the root to the step times of the first case that ran. */
static void write_root(writer *w, const record *r)
{
    int64_t count[VERDICT_SKIPPED + 1] = { 0 };
    const case_result *shown = NULL;
    for (int64_t i = r->count - 1; i >= 0; i--) {
        count[r->result[i]->verdict]++;
        if (r->result[i]->verdict != VERDICT_SKIPPED) shown = r->result[i];
    }
    writer_attribute(w, "/", "NX_class", datum_text("NXroot"));
    writer_attribute(w, "/", "creator", datum_text("xgsw"));
    writer_attribute(w, "/", "record_version", datum_integer(RECORD_VERSION));
    writer_attribute(w, "/", "cases_planned", datum_integer(r->planned));
    writer_attribute(w, "/", "passed", datum_integer(count[VERDICT_PASSED]));
    writer_attribute(w, "/", "failed", datum_integer(count[VERDICT_FAILED]));
    writer_attribute(w, "/", "skipped", datum_integer(count[VERDICT_SKIPPED]));
    if (shown) writer_attribute(w, "/", "default", datum_text(group_of(shown).path + 1));
}

bool record_commit(record *r, char *reason, size_t length)
{
    if (r->none) return true;
    writer *w = writer_open();
    write_root(w, r);
    provenance_write(r->provenance, w);
    for (int64_t i = 0; i < r->count; i++) case_write(w, group_of(r->result[i]).path, r->result[i]);
    void *bytes;
    size_t size;
    if (!writer_close(w, &bytes, &size, reason, length)) return false;
    bool written = replace_file(r->path, bytes, size, reason, length);
    free(bytes);
    return written;
}

void record_close(record *r)
{
    if (!r) return;
    free(r->result);
    provenance_close(r->provenance);
    free(r);
}
