/* Columns and rows of the table. */
#include "bench/report/summary.h"
#include "base/say.h"
#include "bench/report/verdict_lines.h"
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
    const char *reason = r->ruling.acceptance == ACCEPTANCE_NO      ? r->ruling.not_accepted
                         : r->ruling.acceptance == ACCEPTANCE_LATER ? acceptance_words[ACCEPTANCE_LATER]
                         : r->ruling.fails.count                    ? r->ruling.fails.list[0].sentence
                         : r->ruling.invalids.count                 ? r->ruling.invalids.list[0].sentence
                                                                    : "";
    const char *before = r->ruling.acceptance == ACCEPTANCE_NO ? "NOT ACCEPTED: " : "";
    snprintf(row.reason, sizeof row.reason, "%s%.*s", before, REASON_LENGTH - 16, reason);
    return row;
}

/* layout: cases that otherwise look alike have different layouts. key: widths of the columns of swept keys, or 0. */
typedef struct {
    bool layout, repeat;
    int key[KEYS];
} table_form;

static bool look_alike(const bench_case *a, const bench_case *b)
{
    return strcmp(a->workload, b->workload) == 0 && a->size == b->size && a->precision == b->precision;
}

static bool layouts_differ(const summary_row *row, int rows)
{
    bool differ = false;
    for (int k = 0, first; k < rows; k++) {
        for (first = 0; !look_alike(row[first].given, row[k].given);) first++;
        differ |= memcmp(&row[first].given->layout, &row[k].given->layout, sizeof(mesh_layout)) != 0;
    }
    return differ;
}

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

static void print_head(const deck *d, const table_form *f)
{
    say("\n%4s  %-14s %-5s %-4s %5s", "case", "workload", "size", "type", "ranks");
    if (f->repeat) say(" repeat");
    for (key_id key = 0; key < KEYS; key++)
        if (is_shown(d, key)) say("  %*s", f->key[key], key_at(key)->name);
    say(" %7s %9s %7s %5s %7s %8s verdict\n", "step s", "tokens/s", "TFLOP/s", "MFU %", "days/1T", "residual");
}

static void say_number(const char *format, int width, double x)
{
    char text[32];
    snprintf(text, sizeof text, format, x);
    say(" %*s", width, isnan(x) ? "n/a" : text);
}

/* Prints what has no space in the line above, which has at most 110 columns. */
static void print_remarks(const summary_row *row, const table_form *f)
{
    char text[LAYOUT_TEXT], remarks[LAYOUT_TEXT + sizeof row->reason];
    const char *layout = f->layout ? layout_text(&row->given->layout, text) : "";
    snprintf(remarks, sizeof remarks, "%s%s%s", layout, layout[0] && row->reason[0] ? "; " : "", row->reason);
    say_shortened(6, remarks);
}

static void print_row(const deck *d, const summary_row *row, const table_form *f)
{
    const bench_case *c = row->given;
    char value[KEY_TEXT];
    say("%4d  %-14s %-5s %-4s %5d", c->number, c->workload, size_name(c->size), precision_name(c->precision), c->ranks);
    if (f->repeat) say(" %3d/%-2lld", c->repeat, (long long)c->repeats);
    for (key_id key = 0; key < KEYS; key++) {
        if (!is_shown(d, key)) continue;
        key_write(key, c, value);
        say("  %*s", f->key[key], key_is_used(key, c) ? value : "-");
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
    print_remarks(row, f);
}

void summary_print(const deck *d, const summary_row *row, int rows)
{
    table_form f = { .key = { 0 } };
    if (rows < 2) return;
    f.layout = layouts_differ(row, rows);
    for (int i = 0; i < rows; i++) f.repeat |= row[i].given->repeats > 1;
    for (key_id key = 0; key < KEYS; key++) f.key[key] = is_shown(d, key) ? width_of(row, rows, key) : 0;
    print_head(d, &f);
    for (int i = 0; i < rows; i++) print_row(d, &row[i], &f);
}
