/* The machine-readable line of a case, "XGSW_RESULT {...}": the keys of the deck and the rows of the fields as JSON, a
 * number that is none as null. */
#include "base/say.h"
#include "bench/result/fields.h"
#include "bench/result/sinks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void say_text(const char *s)
{
    say("\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') say("\\%c", *s);
        else if ((unsigned char)*s < 32) say("\\u%04x", (unsigned)*s);
        else say("%c", *s);
    }
    say("\"");
}

/* In as few digits as give the same number back. */
static void say_real(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.15g", x);
    if (strtod(text, NULL) != x) snprintf(text, sizeof text, "%.17g", x);
    say("%s", isfinite(x) ? text : "null");
}

static void say_value(datum v)
{
    switch (v.kind) {
    case VALUE_REAL: say_real(v.real); break;
    case VALUE_INTEGER: say("%lld", (long long)v.integer); break;
    case VALUE_FLAG: say(v.integer ? "true" : "false"); break;
    case VALUE_TEXT: say_text(v.text); break;
    }
}

static void say_list(const field_group *g, const field *f, const case_result *r)
{
    say("[");
    for (int64_t i = 0; i < field_rows(f, r); i++) {
        if (i) say(",");
        say_value(field_value(g, f, r, i));
    }
    say("]");
}

/* Of row i, where the group stands in rows; the field that names the row stands before them. */
static void say_fields(const field_group *g, const case_result *r, int64_t i, const char *comma)
{
    bool rows = g->line == LINE_ROWS;
    for (const field *f = g->field + rows; f < g->field + g->fields; f++) {
        if (f->kind == FIELD_ROW) continue;
        say("%s\"%s\":", comma, f->name);
        if (rows || f->per == PER_CASE) say_value(field_value(g, f, r, i));
        else say_list(g, f, r);
        comma = ",";
    }
}

static bool is_row_of_zeros(const field_group *g, const case_result *r, int64_t i)
{
    bool zeros = true;
    for (const field *f = g->field + 1; f < g->field + g->fields; f++) {
        datum v = field_value(g, f, r, i);
        zeros &= v.real == 0.0 && v.integer == 0;
    }
    return zeros;
}

static void say_rows(const field_group *g, const case_result *r)
{
    const char *comma = "";
    for (int64_t i = 0; i < field_rows(g->field, r); i++) {
        if (is_row_of_zeros(g, r, i)) continue;
        say("%s\"%s\":{", comma, field_value(g, g->field, r, i).text);
        say_fields(g, r, i, "");
        say("}");
        comma = ",";
    }
}

static void say_group(const field_group *g, const case_result *r)
{
    if (g->line == LINE_FLAT) say_fields(g, r, 0, ",");
    if (g->line == LINE_FLAT || g->line == LINE_ABSENT) return;
    say(",\"%s\":{", g->name);
    if (g->line == LINE_ROWS) say_rows(g, r);
    else say_fields(g, r, 0, "");
    say("}");
}

static void say_case(void *state, const case_result *r)
{
    char word[KEY_TEXT];
    (void)state;
    for (key_id key = 0; key < KEYS; key++) {
        say("%s\"%s\":", key ? "," : "XGSW_RESULT {", key_at(key)->name);
        say_value(setting_value(key, r->given, word));
    }
    for (int i = 0; i < field_groups(); i++) say_group(field_group_at(i), r);
    say("}\n");
}

const sink json_sink = { .name = "XGSW_RESULT", .case_ends = say_case };
