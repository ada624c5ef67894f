/* The rows of fields.c as attributes and datasets. A group that plots by itself is an NXdata with a signal and axes. */
#include "bench/record/case_group.h"
#include "base/fail.h"
#include "bench/result/fields.h"
#include <stdlib.h>
#include <string.h>

static void write_attribute(writer *w, const char *group, const char *name, datum v)
{
    switch (v.kind) {
    case VALUE_REAL: writer_attribute_real(w, group, name, v.real); break;
    case VALUE_INTEGER: writer_attribute_integer(w, group, name, v.integer); break;
    case VALUE_FLAG: writer_attribute_flag(w, group, name, v.integer != 0); break;
    case VALUE_TEXT: writer_attribute_text(w, group, name, v.text); break;
    }
}

static void write_one(writer *w, const char *path, const char *units, datum v)
{
    switch (v.kind) {
    case VALUE_REAL: writer_real(w, path, units, v.real); break;
    case VALUE_INTEGER: writer_integer(w, path, units, v.integer); break;
    case VALUE_FLAG: writer_flag(w, path, v.integer != 0); break;
    case VALUE_TEXT: writer_text(w, path, v.text, strlen(v.text)); break;
    }
}

/* Values of one kind, the row and column of each as field_value counts them. */
typedef struct {
    double *real;
    int64_t *integer;
    const char **text;
} column;

static column column_open(int64_t count)
{
    size_t n = (size_t)count + 1;
    column c = { malloc(n * sizeof *c.real), malloc(n * sizeof *c.integer), malloc(n * sizeof *c.text) };
    if (!c.real || !c.integer || !c.text) FAIL("out of memory for %lld values of the record", (long long)count);
    return c;
}

static void column_close(column *c)
{
    free(c->real);
    free(c->integer);
    free(c->text);
}

static void write_list(writer *w, const char *path, const field_group *g, const field *f, const case_result *r)
{
    int64_t rows = field_rows(f, r), columns = field_columns(f, r);
    column c = column_open(rows * columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        datum v = field_value(g, f, r, i);
        c.real[i] = v.real, c.integer[i] = v.integer, c.text[i] = v.text;
    }
    if (!f->units) writer_texts(w, path, c.text, rows);
    else if (field_is_integer(f)) writer_integers(w, path, f->units, c.integer, rows);
    else if (f->across == PER_CASE) writer_reals(w, path, f->units, c.real, rows);
    else writer_table(w, path, f->units, c.real, rows, columns);
    column_close(&c);
}

static void write_attributes(writer *w, const char *group, const field_group *g, const case_result *r)
{
    for (const field *f = g->field; f < g->field + g->fields; f++)
        write_attribute(w, group, f->name, field_value(g, f, r, 0));
}

static void write_group(writer *w, const char *path, const field_group *g, const case_result *r)
{
    writer_group(w, path, g->signal ? "NXdata" : "NXcollection");
    if (g->signal) writer_attribute_text(w, path, "signal", g->signal);
    if (g->signal) writer_attribute_texts(w, path, "axes", g->axes, g->axes[1] ? 2 : 1);
    for (const field *f = g->field; f < g->field + g->fields; f++) {
        writer_path at = writer_join(path, f->name);
        if (f->per == PER_CASE) write_one(w, at.path, f->units, field_value(g, f, r, 0));
        else write_list(w, at.path, g, f, r);
    }
}

void case_write(writer *w, const char *group, const case_result *r)
{
    char word[KEY_TEXT];
    writer_group(w, group, "NXentry");
    for (key_id key = 0; key < KEYS; key++)
        write_attribute(w, group, key_at(key)->name, setting_value(key, r->given, word));
    if (r->verdict != VERDICT_SKIPPED) writer_attribute_text(w, group, "default", "steps");
    for (int i = 0; i < field_groups(); i++) {
        const field_group *g = field_group_at(i);
        if (!g->name[0]) write_attributes(w, group, g, r);
        else if (r->verdict != VERDICT_SKIPPED) write_group(w, writer_join(group, g->name).path, g, r);
    }
}
