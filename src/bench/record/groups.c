/* Writes the fields as attributes and datasets. */
#include "bench/record/groups.h"
#include "base/memory.h"
#include "bench/facts/fields.h"
#include <stdio.h>

static bool is_integer(const field *f)
{
    return f->kind == FIELD_INTEGER || f->kind == FIELD_COUNT || f->kind == FIELD_BYTES || f->kind == FIELD_ROW;
}

static void write_list(writer *w, const char *path, const field_group *g, const field *f, const case_result *r)
{
    int64_t rows = field_rows(f, r), columns = field_columns(f, r), n = rows * columns;
    double *real = allocate(n, sizeof *real, "numbers of the record");
    int64_t *integer = allocate(n, sizeof *integer, "integers of the record");
    const char **text = allocate(n, sizeof *text, "texts of the record");
    for (int64_t i = 0; i < n; i++) {
        datum v = field_value(g, f, r, i);
        real[i] = v.real, integer[i] = v.integer, text[i] = v.text;
    }
    if (!f->units) writer_texts(w, path, text, rows);
    else if (is_integer(f) && f->across != PER_CASE) writer_integer_table(w, path, integer, rows, columns);
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

/* A group that viewers can plot is an NXdata with a signal and axes. */
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

writer_path case_group(const bench_case *c)
{
    writer_path group;
    snprintf(group.path, sizeof group.path, "/case_%04d", c->number);
    return group;
}

void case_write_settings(writer *w, const case_result *r)
{
    char word[KEY_TEXT];
    writer_path group = case_group(r->given);
    writer_group(w, group.path, "NXentry");
    for (key_id key = 0; key < KEYS; key++)
        writer_attribute(w, group.path, key_at(key)->name, setting_value(key, r->given, word));
    for (int i = 0; i < field_groups(); i++)
        if (!field_group_at(i)->name[0]) write_attributes(w, group.path, field_group_at(i), r);
}

static void write_results(writer *w, const char *group, const case_result *r)
{
    writer_attribute(w, group, "default", datum_text("steps"));
    for (int i = 0; i < field_groups(); i++)
        if (field_group_at(i)->name[0])
            write_group(w, writer_join(group, field_group_at(i)->name).path, field_group_at(i), r);
}

void case_write(writer *w, const case_result *r)
{
    case_write_settings(w, r);
    if (r->ruling.verdict != VERDICT_SKIPPED) write_results(w, case_group(r->given).path, r);
}
