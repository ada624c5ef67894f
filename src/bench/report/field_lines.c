/* Lines and tables of fields. */
#include "bench/report/field_lines.h"
#include "base/say.h"
#include "bench/facts/fields.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_TEXT = 32 };

/* Returns the value as text, which may be in `buffer`; empty if unknown. */
static const char *value_text(datum v, char buffer[NUMBER_TEXT])
{
    buffer[0] = 0;
    switch (v.kind) {
    case VALUE_REAL:
        if (!isnan(v.real)) snprintf(buffer, NUMBER_TEXT, "%.6g", v.real);
        return buffer;
    case VALUE_INTEGER: snprintf(buffer, NUMBER_TEXT, "%lld", (long long)v.integer); return buffer;
    case VALUE_FLAG: return v.integer ? "yes" : "no";
    case VALUE_TEXT: return v.text;
    }
    return buffer;
}

static void say_value(const char *group, const char *name, datum v, const char *units)
{
    char buffer[NUMBER_TEXT], full_name[64];
    const char *text = value_text(v, buffer);
    snprintf(full_name, sizeof full_name, "%s%s%s", group, group[0] ? "." : "", name);
    if (text[0]) say("  %-32s %s%s%s\n", full_name, text, units ? " " : "", units ? units : "");
}

static void say_settings(const bench_case *c)
{
    char word[KEY_TEXT];
    for (key_id key = 0; key < KEYS; key++) say_value("", key_at(key)->name, setting_value(key, c, word), NULL);
}

/* Returns whether a group of LINE_OBJECT has only zeros, empty texts and unknown values. */
static bool is_blank(const field_group *g, const case_result *r)
{
    bool blank = g->line == LINE_OBJECT;
    for (const field *f = g->field; blank && f < g->field + g->fields; f++) {
        datum v = field_value(g, f, r, 0);
        blank &= v.kind == VALUE_TEXT ? !v.text[0] : v.kind == VALUE_REAL ? !(fabs(v.real) > 0.0) : v.integer == 0;
    }
    return blank;
}

/* Omits fields of steps, because each step has its own line in the report. */
static void say_group(const field_group *g, const case_result *r)
{
    for (const field *f = g->field; f < g->field + g->fields; f++)
        for (int64_t i = 0; f->per != PER_STEP && i < field_rows(f, r); i++)
            say_value(g->line == LINE_OBJECT ? g->name : "", f->name, field_value(g, f, r, i),
                      f->units && strcmp(f->units, "1") ? f->units : NULL);
}

static void say_table(const field_group *g, const case_result *r)
{
    char buffer[NUMBER_TEXT];
    if (!field_rows(g->field, r)) return;
    say("  %-24s", g->name);
    for (const field *f = g->field + 1; f < g->field + g->fields; f++) say(" %16s", f->name);
    for (int64_t i = 0; i < field_rows(g->field, r); i++) {
        if (field_row_is_zero(g, r, i)) continue;
        say("\n    %-22s", field_value(g, g->field, r, i).text);
        for (const field *f = g->field + 1; f < g->field + g->fields; f++)
            say(" %16s", value_text(field_value(g, f, r, i), buffer));
    }
    say("\n");
}

void say_fields(const case_result *r)
{
    say_settings(r->given);
    for (int i = 0; i < field_groups(); i++) {
        const field_group *g = field_group_at(i);
        if (g->line == LINE_ROWS) say_table(g, r);
        else if (g->line != LINE_ABSENT && !is_blank(g, r)) say_group(g, r);
    }
}
