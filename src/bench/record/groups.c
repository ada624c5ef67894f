/* The rows of the fields as attributes and datasets. */
#include "bench/record/groups.h"
#include "base/fail.h"
#include "bench/result/fields.h"
#include <stdio.h>
#include <stdlib.h>

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

/* One that plots by itself is an NXdata with a signal and axes. */
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

step_numbers step_numbers_of(const case_result *r, int64_t step, double seconds)
{
    step_numbers n = { r->given->number,
                       step,
                       { seconds, r->loss[step], r->gradient_norm[step], r->learning_rate[step] } };
    for (int i = 0; i < ROUTED_FIGURES; i++) n.number[STEP_NUMBERS - ROUTED_FIGURES + i] = r->routed[i][step];
    return n;
}

/* A link a step; the last. */
static chain_link write_links(writer *w, const char *path, const case_result *r, chain_link newest)
{
    size_t n = (size_t)r->completed;
    chain_link *link = calloc(n + 1, sizeof *link);
    const char **text = calloc(n + 1, sizeof *text);
    if (!link || !text) FAIL("out of memory for the links of %zu steps", n);
    for (size_t i = 0; i < n; i++) {
        step_numbers s = step_numbers_of(r, (int64_t)i, r->rank_seconds[i * (size_t)r->given->layout.ranks]);
        newest = link[i] = chain_extend(&newest, &s, sizeof s);
        text[i] = link[i].hex;
    }
    writer_group(w, path, "NXcollection");
    writer_texts(w, writer_join(path, "links").path, text, (int64_t)n);
    free(text);
    free(link);
    return newest;
}

static chain_link write_results(writer *w, const char *group, const case_result *r, const chain_link *before)
{
    writer_attribute(w, group, "default", datum_text("steps"));
    for (int i = 0; i < field_groups(); i++)
        if (field_group_at(i)->name[0])
            write_group(w, writer_join(group, field_group_at(i)->name).path, field_group_at(i), r);
    return write_links(w, writer_join(group, "chain").path, r, *before);
}

chain_link case_write(writer *w, const case_result *r, const chain_link *before)
{
    char digest[SHA256_HEX];
    size_t from = writer_items(w);
    writer_path group = case_group(r->given);
    case_write_settings(w, r);
    chain_link steps = r->verdict == VERDICT_SKIPPED ? *before : write_results(w, group.path, r, before);
    writer_digest(w, from, digest);
    chain_link end = chain_extend(&steps, digest, SHA256_HEX - 1);
    writer_attribute(w, group.path, "chain_head", datum_text(end.hex));
    return end;
}
