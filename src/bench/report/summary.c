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
                        .tflops_per_gpu = ran ? r->figures.tflops_per_gpu : NAN,
                        .recipe_mfu = ran ? r->figures.recipe_mfu : NAN,
                        .days = ran ? r->figures.days_per_trillion : NAN,
                        .residual = ran && checked ? r->seen.check.residual : NAN,
                        .valid = r->ruling.valid,
                        .acceptance = r->ruling.acceptance };
    const char *reason = r->ruling.acceptance == ACCEPTANCE_NO ? r->ruling.not_accepted
                         : r->ruling.fails.count               ? r->ruling.fails.list[0].sentence
                         : r->ruling.invalids.count            ? r->ruling.invalids.list[0].sentence
                                                               : "";
    snprintf(row.reason, sizeof row.reason, "%.*s", REASON_LENGTH - 1, reason);
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

static bool look_alike(const bench_case *a, const bench_case *b)
{
    return strcmp(a->workload, b->workload) == 0 && a->size == b->size && a->precision == b->precision;
}

/* Returns 0 if the column is omitted because it tells no two cases apart that otherwise look alike. */
static int width_of_column(const summary_row *row, int rows, int i)
{
    char first[LAYOUT_TEXT], other[LAYOUT_TEXT];
    int width = (int)strlen(columns[i].name);
    bool differs = false;
    for (int k = 0; k < rows; k++) {
        int length = (int)strlen(columns[i].of(row[k].given, other)), same = 0;
        while (!look_alike(row[same].given, row[k].given)) same++;
        differs |= strcmp(columns[i].of(row[same].given, first), other) != 0;
        if (length > width) width = length;
    }
    return differs ? width : 0;
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
    say("\n%4s  %-14s %-5s %-4s %5s", "case", "workload", "size", "type", "ranks");
    for (int i = 0; i < COLUMNS; i++)
        if (w->column[i]) say(" %-*s", w->column[i], columns[i].name);
    for (key_id key = 0; key < KEYS; key++)
        if (is_shown(d, key)) say("  %*s", w->key[key], key_at(key)->name);
    say(" %7s %9s %7s %5s %7s %8s verdict\n", "step s", "tokens/s", "TFLOP/s", "MFU %", "days/1T", "residual");
}

static void say_number(const char *format, int width, double x)
{
    char text[32];
    snprintf(text, sizeof text, format, x);
    say(" %*s", width, isnan(x) ? "n/a" : text);
}

/* The line above has at most 110 columns, with no space for NOT ACCEPTED. */
static void print_reason(const summary_row *row)
{
    const char *word = row->acceptance == ACCEPTANCE_YES ? "" : acceptance_words[row->acceptance];
    if (word[0] || row->reason[0]) say("      %s%s%s\n", word, word[0] && row->reason[0] ? ": " : "", row->reason);
}

static void print_row(const deck *d, const summary_row *row, const widths *w)
{
    const bench_case *c = row->given;
    char value[KEY_TEXT], text[LAYOUT_TEXT];
    say("%4d  %-14s %-5s %-4s %5d", c->number, c->workload, size_name(c->size), precision_name(c->precision),
        c->layout.ranks);
    for (int i = 0; i < COLUMNS; i++)
        if (w->column[i]) say(" %-*s", w->column[i], columns[i].of(c, text));
    for (key_id key = 0; key < KEYS; key++) {
        if (!is_shown(d, key)) continue;
        key_write(key, c, value);
        say("  %*s", w->key[key], key_is_used(key, c) ? value : "-");
    }
    say_number("%.4f", 7, row->seconds);
    say_number("%.1f", 9, row->tokens_per_second);
    say_number(row->tflops_per_gpu < 1.0 ? "%.4f" : "%.1f", 7, row->tflops_per_gpu);
    say_number("%.1f", 5, 100.0 * row->recipe_mfu);
    say_number("%.2f", 7, row->days);
    say_number("%.4g", 8, row->residual);
    say(" %s%s", verdict_words[row->verdict],
        row->verdict == VERDICT_SKIPPED ? ""
        : row->valid                    ? " VALID"
                                        : " NOT VALID");
    say("%s\n", row->acceptance == ACCEPTANCE_YES ? " ACCEPTED" : "");
    print_reason(row);
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
