/* The table of all cases. */
#include "bench/summary.h"
#include "base/say.h"
#include "plan/deck/same_run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

summary_row summary_row_of(const case_result *r)
{
    bool ran = r->verdict != VERDICT_SKIPPED, checked = r->check[0].done || r->check[1].done;
    return (summary_row){ .given = r->given,
                          .verdict = r->verdict,
                          .seconds = ran ? r->median_seconds : NAN,
                          .tokens_per_second = ran ? r->tokens_per_second : NAN,
                          .residual = ran && checked ? fmax(r->check[0].residual, r->check[1].residual) : NAN,
                          .valid = r->valid };
}

/* Columns that every table has. */
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

static void print_head(const deck *d, const int width[KEYS])
{
    say("\n%4s  %-16s %-6s %-9s %5s", "case", "workload", "size", "precision", "ranks");
    for (key_id key = 0; key < KEYS; key++)
        if (is_shown(d, key)) say("  %*s", width[key], key_at(key)->name);
    say("  %10s  %12s  %8s  verdict\n", "step s", "tokens/s", "residual");
}

static void say_number(const char *format, int width, double x)
{
    char text[32];
    snprintf(text, sizeof text, format, x);
    say("  %*s", width, isnan(x) ? "n/a" : text);
}

static void print_row(const deck *d, const summary_row *row, const int width[KEYS])
{
    const bench_case *c = row->given;
    char value[KEY_TEXT];
    say("%4d  %-16s %-6s %-9s %5d", c->number, c->workload, size_name(c->size), precision_name(c->precision),
        c->layout.ranks);
    for (key_id key = 0; key < KEYS; key++) {
        if (!is_shown(d, key)) continue;
        key_write(key, c, value);
        say("  %*s", width[key], key_is_used(key, c) ? value : "-");
    }
    say_number("%.4f", 10, row->seconds);
    say_number("%.1f", 12, row->tokens_per_second);
    say_number("%.4g", 8, row->residual);
    say("  %s%s\n", verdict_words[row->verdict],
        row->verdict == VERDICT_SKIPPED ? ""
        : row->valid                    ? " VALID"
                                        : " NOT VALID");
}

void summary_print(const deck *d, const summary_row *row, int rows)
{
    int width[KEYS];
    if (rows < 2) return;
    for (key_id key = 0; key < KEYS; key++) width[key] = is_shown(d, key) ? width_of(row, rows, key) : 0;
    print_head(d, width);
    for (int i = 0; i < rows; i++) print_row(d, &row[i], width);
}
