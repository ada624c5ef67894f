/* The record knows all finished cases and writes the file anew at each commit. */
#include "bench/record/record.h"
#include "base/clock.h"
#include "base/fail.h"
#include "bench/record/provenance.h"
#include "bench/record/replace.h"
#include "bench/result/fields.h"
#include "bench/sinks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_VERSION = 2, COMMIT_SHARE = 20 };

struct record {
    char path[PATH_LENGTH]; /* links followed, so that they stay */
    bool none;
    provenance *provenance;
    int64_t planned;
    const case_result **result;
    int64_t count;
    bool any_ran;
    double ended, seconds; /* of the sink's last commit */
};

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
    if (r->none) return;
    const case_result **longer = realloc(r->result, (size_t)(r->count + 1) * sizeof *longer);
    if (!longer) FAIL("out of memory for case %d of the record", result->given->number);
    r->result = longer;
    r->result[r->count++] = result;
    r->any_ran |= result->verdict != VERDICT_SKIPPED;
}

/* The rows of fields.c as attributes and datasets. A group that plots by itself is an NXdata with a signal and axes. */
static bool is_integer(const field *f)
{
    return f->kind == FIELD_INTEGER || f->kind == FIELD_COUNT || f->kind == FIELD_BYTES || f->kind == FIELD_ROW;
}

static void write_list(writer *w, const char *path, const field_group *g, const field *f, const case_result *r)
{
    int64_t rows = field_rows(f, r), columns = field_columns(f, r), n = rows * columns;
    double *real = malloc(((size_t)n + 1) * sizeof *real);
    int64_t *integer = malloc(((size_t)n + 1) * sizeof *integer);
    const char **text = malloc(((size_t)n + 1) * sizeof *text);
    if (!real || !integer || !text) FAIL("out of memory for %lld values of the record", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        datum v = field_value(g, f, r, i);
        real[i] = v.real, integer[i] = v.integer, text[i] = v.text;
    }
    if (!f->units) writer_texts(w, path, text, rows);
    else if (is_integer(f)) writer_integers(w, path, f->units, integer, rows);
    else if (f->across == PER_CASE) writer_reals(w, path, f->units, real, rows);
    else writer_table(w, path, f->units, real, rows, columns);
    free(real);
    free(integer);
    free(text);
}

static void write_attributes(writer *w, const char *group, const field_group *g, const case_result *r)
{
    for (const field *f = g->field; f < g->field + g->fields; f++)
        writer_attribute(w, group, f->name, field_value(g, f, r, 0));
}

static void write_group(writer *w, const char *path, const field_group *g, const case_result *r)
{
    writer_group(w, path, g->signal ? "NXdata" : "NXcollection");
    if (g->signal) writer_attribute(w, path, "signal", datum_text(g->signal));
    if (g->signal) writer_attribute_texts(w, path, "axes", g->axes, g->axes[1] ? 2 : 1);
    for (const field *f = g->field; f < g->field + g->fields; f++) {
        writer_path at = writer_join(path, f->name);
        if (f->per == PER_CASE) writer_value(w, at.path, f->units, field_value(g, f, r, 0));
        else write_list(w, at.path, g, f, r);
    }
}

/* A case is the group /case_0001: its attributes are settings, its groups hold results, with units everywhere. One that
 * was skipped has attributes only. */
static void write_case(writer *w, const char *group, const case_result *r)
{
    char word[KEY_TEXT];
    writer_group(w, group, "NXentry");
    for (key_id key = 0; key < KEYS; key++)
        writer_attribute(w, group, key_at(key)->name, setting_value(key, r->given, word));
    if (r->verdict != VERDICT_SKIPPED) writer_attribute(w, group, "default", datum_text("steps"));
    for (int i = 0; i < field_groups(); i++) {
        const field_group *g = field_group_at(i);
        if (!g->name[0]) write_attributes(w, group, g, r);
        else if (r->verdict != VERDICT_SKIPPED) write_group(w, writer_join(group, g->name).path, g, r);
    }
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
    for (int64_t i = 0; i < r->count; i++) write_case(w, group_of(r->result[i]).path, r->result[i]);
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

static bool open_record(void **state, const run_source *run, char *reason, size_t length)
{
    char why[384];
    *state = record_open(run, why, sizeof why);
    if (!*state) snprintf(reason, length, "%s; record = PATH names another file, record = none keeps none", why);
    return *state;
}

/* The file is rewritten whole, so a deck of many short cases is written when writing costs at most a twentieth of the
 * time since; the last case always writes. Until a case has run nothing is: an older record stays. */
static void add_case(void *state, const case_result *result)
{
    char reason[512];
    record *r = state;
    record_add(r, result);
    double begin = clock_seconds();
    bool due = r->count == r->planned || begin - r->ended >= COMMIT_SHARE * r->seconds;
    if (!r->any_ran || !due) return;
    if (!record_commit(r, reason, sizeof reason)) FAIL_STATUS(STATUS_RECORD, "record: %s", reason);
    r->ended = clock_seconds();
    r->seconds = r->ended - begin;
}

static void close_record(void *state) { record_close(state); }

const sink record_sink = { .name = "record", .open = open_record, .case_ends = add_case, .close = close_record };
