/* Columns and rows of the table. */
#include "bench/report/summary.h"
#include "base/say.h"
#include "plan/deck/same_run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

summary_row summary_row_of(const case_result *r)
{
    bool ran = r->ruling.verdict != VERDICT_SKIPPED, checked = r->seen.check.done;
    summary_row row = { .given = r->given,
                        .verdict = r->ruling.verdict,
                        .seconds = ran ? r->figures.mean_seconds : NAN,
                        .tokens_per_second = ran ? r->figures.tokens_per_second : NAN,
                        .residual = ran && checked ? r->seen.check.residual : NAN,
                        .valid = r->ruling.valid,
                        .acceptance = r->ruling.acceptance };
    const char *reason = r->ruling.fails.count      ? r->ruling.fails.list[0].sentence
                         : r->ruling.invalids.count ? r->ruling.invalids.list[0].sentence
                                                    : "";
    snprintf(row.reason, sizeof row.reason, "%s", reason);
    return row;
}

/* Returns the text of a case in a column. These columns come before those of the deck's keys. */
typedef const char *column(const bench_case *c, char text[LAYOUT_TEXT]);

static const char *layout_of(const bench_case *c, char text[LAYOUT_TEXT]) { return layout_text(&c->layout, text); }

static const char *repeat_of(const bench_case *c, char text[LAYOUT_TEXT])
{
    snprintf(text, LAYOUT_TEXT, "%d/%lld", c->repeat, (long long)c->repeats);
    return text;
}

static const struct {
    const char *name;
    column *of;
} columns[] = { { "layout", layout_of }, { "repeat", repeat_of } };
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Returns 0 if the column is omitted because all cases have the same text. */
static int width_of_column(const summary_row *row, int rows, int i)
{
    char first[LAYOUT_TEXT], other[LAYOUT_TEXT];
    int width = (int)strlen(columns[i].name);
    bool alike = true;
    columns[i].of(row[0].given, first);
    for (int k = 0; k < rows; k++) {
        int length = (int)strlen(columns[i].of(row[k].given, other));
        if (length > width) width = length;
        alike &= strcmp(first, other) == 0;
    }
    return alike ? 0 : width;
}

typedef struct {
    int column[COLUMNS], key[KEYS];
} widths;

/* Excludes size and precision, because every table has their columns. */
static bool is_shown(const deck *d, key_id key) { return d->swept[key] && key != KEY_SIZE && key != KEY_PRECISION; }

static int width_of(const summary_row *row, int rows, key_id key)
{
    char value[KEY_TEXT];
    int width = (int)strlen(key_at(key)->name);
    for (int i = 0; i < rows; i++) {
        key_write(key, row[i].given, value);
        if ((int)strlen(value) > width) width = (int)strlen(value);
    }
    return width;
}

static void print_head(const deck *d, const widths *w)
{
    say("\n%4s  %-16s %-6s %-9s %5s", "case", "workload", "size", "precision", "ranks");
    for (int i = 0; i < COLUMNS; i++)
        if (w->column[i]) say("  %-*s", w->column[i], columns[i].name);
    for (key_id key = 0; key < KEYS; key++)
        if (is_shown(d, key)) say("  %*s", w->key[key], key_at(key)->name);
    say("  %10s  %12s  %8s  verdict\n", "step s", "tokens/s", "residual");
}

static void say_number(const char *format, int width, double x)
{
    char text[32];
    snprintf(text, sizeof text, format, x);
    say("  %*s", width, isnan(x) ? "n/a" : text);
}

static void print_row(const deck *d, const summary_row *row, const widths *w)
{
    const bench_case *c = row->given;
    char value[KEY_TEXT], text[LAYOUT_TEXT];
    say("%4d  %-16s %-6s %-9s %5d", c->number, c->workload, size_name(c->size), precision_name(c->precision), c->ranks);
    for (int i = 0; i < COLUMNS; i++)
        if (w->column[i]) say("  %-*s", w->column[i], columns[i].of(c, text));
    for (key_id key = 0; key < KEYS; key++) {
        if (!is_shown(d, key)) continue;
        key_write(key, c, value);
        say("  %*s", w->key[key], key_is_used(key, c) ? value : "-");
    }
    say_number("%.4f", 10, row->seconds);
    say_number("%.1f", 12, row->tokens_per_second);
    say_number("%.4g", 8, row->residual);
    say("  %s%s", verdict_words[row->verdict],
        row->verdict == VERDICT_SKIPPED ? ""
        : row->valid                    ? " VALID"
                                        : " NOT VALID");
    say("%s%s\n", row->acceptance ? " " : "", acceptance_words[row->acceptance]);
    if (row->reason[0]) say("      %s\n", row->reason);
}

void summary_print(const deck *d, const summary_row *row, int rows)
{
    widths w = { .key = { 0 } };
    if (rows < 2) return;
    for (int i = 0; i < COLUMNS; i++) w.column[i] = width_of_column(row, rows, i);
    for (key_id key = 0; key < KEYS; key++) w.key[key] = is_shown(d, key) ? width_of(row, rows, key) : 0;
    print_head(d, &w);
    for (int i = 0; i < rows; i++) print_row(d, &row[i], &w);
}
