/* The rows of fields.c as attributes and datasets. A group that plots by itself is an NXdata with a signal and axes. */
#include "bench/record/case_group.h"
#include "base/fail.h"
#include "bench/result/fields.h"
#include <stdlib.h>

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
    else if (field_is_integer(f)) writer_integers(w, path, f->units, integer, rows);
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

void case_write(writer *w, const char *group, const case_result *r)
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
