/* Lines and tables of fields. */
#include "bench/report/field_lines.h"
#include "base/say.h"
#include "bench/facts/fields.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_TEXT = 32 };

/* Returns the value as text, in `room` or in the result; empty if unknown. */
static const char *datum_word(datum v, char room[NUMBER_TEXT])
{
    room[0] = 0;
    switch (v.kind) {
    case VALUE_REAL:
        if (!isnan(v.real)) snprintf(room, NUMBER_TEXT, "%.6g", v.real);
        return room;
    case VALUE_INTEGER: snprintf(room, NUMBER_TEXT, "%lld", (long long)v.integer); return room;
    case VALUE_FLAG: return v.integer ? "yes" : "no";
    case VALUE_TEXT: return v.text;
    }
    return room;
}

static void say_value(const char *group, const char *name, datum v, const char *units)
{
    char room[NUMBER_TEXT], full[64];
    const char *text = datum_word(v, room);
    snprintf(full, sizeof full, "%s%s%s", group, group[0] ? "." : "", name);
    if (text[0]) say("  %-32s %s%s%s\n", full, text, units ? " " : "", units ? units : "");
}

static void say_settings(const bench_case *c)
{
    char word[KEY_TEXT];
    for (key_id key = 0; key < KEYS; key++) say_value("", key_at(key)->name, setting_value(key, c, word), NULL);
}

/* Returns whether an object has only zeros, empty texts and unknown values. */
static bool is_blank(const field_group *g, const case_result *r)
{
    bool blank = g->line == LINE_OBJECT;
    for (const field *f = g->field; blank && f < g->field + g->fields; f++) {
        datum v = field_value(g, f, r, 0);
        blank &= v.kind == VALUE_TEXT ? !v.text[0] : v.kind == VALUE_REAL ? !(fabs(v.real) > 0.0) : v.integer == 0;
    }
    return blank;
}

/* Fields of steps are omitted, because each step has its own line in the report. */
static void say_group(const field_group *g, const case_result *r)
{
    for (const field *f = g->field; f < g->field + g->fields; f++)
        for (int64_t i = 0; f->per != PER_STEP && i < field_rows(f, r); i++)
            say_value(g->line == LINE_OBJECT ? g->name : "", f->name, field_value(g, f, r, i),
                      f->units && strcmp(f->units, "1") ? f->units : NULL);
}

static void say_table(const field_group *g, const case_result *r)
{
    char room[NUMBER_TEXT];
    if (!field_rows(g->field, r)) return;
    say("  %-24s", g->name);
    for (const field *f = g->field + 1; f < g->field + g->fields; f++) say(" %16s", f->name);
    for (int64_t i = 0; i < field_rows(g->field, r); i++) {
        if (field_row_is_zero(g, r, i)) continue;
        say("\n    %-22s", field_value(g, g->field, r, i).text);
        for (const field *f = g->field + 1; f < g->field + g->fields; f++)
            say(" %16s", datum_word(field_value(g, f, r, i), room));
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
