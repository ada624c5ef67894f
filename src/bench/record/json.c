/* Output for scripts: the short line "XGSW_RESULT {...}"; with --json, an object of all keys and fields of a case; in a
 * dry run, an object of the forecast. A number that is not finite becomes null. */
#include "bench/record/json.h"
#include "base/fail.h"
#include "base/say.h"
#include "bench/facts/fields.h"
#include "bench/facts/sink.h"
#include "bench/record/place.h"
#include "plan/catalogue/catalogue.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void write_text(FILE *to, const char *s)
{
    fprintf(to, "\"");
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') fprintf(to, "\\%c", *s);
        else if ((unsigned char)*s < 32) fprintf(to, "\\u%04x", (unsigned)*s);
        else fprintf(to, "%c", *s);
    }
    fprintf(to, "\"");
}

/* Writes 15 digits if they represent x exactly, otherwise 17. */
static void write_real(FILE *to, double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.15g", x);
    if (strtod(text, NULL) != x) snprintf(text, sizeof text, "%.17g", x);
    fprintf(to, "%s", isfinite(x) ? text : "null");
}

static void write_value(FILE *to, datum v)
{
    switch (v.kind) {
    case VALUE_REAL: write_real(to, v.real); break;
    case VALUE_INTEGER: fprintf(to, "%lld", (long long)v.integer); break;
    case VALUE_FLAG: fprintf(to, v.integer ? "true" : "false"); break;
    case VALUE_TEXT: write_text(to, v.text); break;
    }
}

static void write_list(FILE *to, const field_group *g, const field *f, const case_result *r)
{
    fprintf(to, "[");
    for (int64_t i = 0; i < field_rows(f, r); i++) {
        if (i) fprintf(to, ",");
        write_value(to, field_value(g, f, r, i));
    }
    fprintf(to, "]");
}

/* Writes the fields of a group, or of its row i without the first field, which names the row. */
static void write_fields(FILE *to, const field_group *g, const case_result *r, int64_t i, const char *comma)
{
    bool rows = g->line == LINE_ROWS;
    for (const field *f = g->field + rows; f < g->field + g->fields; f++) {
        if (f->kind == FIELD_ROW || f->record_only) continue;
        fprintf(to, "%s\"%s\":", comma, f->name);
        if (rows || f->per == PER_CASE) write_value(to, field_value(g, f, r, i));
        else write_list(to, g, f, r);
        comma = ",";
    }
}

static void write_rows(FILE *to, const field_group *g, const case_result *r)
{
    const char *comma = "";
    for (int64_t i = 0; i < field_rows(g->field, r); i++) {
        if (field_row_is_zero(g, r, i)) continue;
        fprintf(to, "%s\"%s\":{", comma, field_value(g, g->field, r, i).text);
        write_fields(to, g, r, i, "");
        fprintf(to, "}");
        comma = ",";
    }
}

static void write_group(FILE *to, const field_group *g, const case_result *r)
{
    if (g->line == LINE_FLAT) write_fields(to, g, r, 0, ",");
    if (g->line == LINE_FLAT || g->line == LINE_ABSENT) return;
    fprintf(to, ",\"%s\":{", g->name);
    if (g->line == LINE_ROWS) write_rows(to, g, r);
    else write_fields(to, g, r, 0, "");
    fprintf(to, "}");
}

void json_keys(FILE *to, const bench_case *c)
{
    char word[KEY_TEXT];
    for (key_id key = 0; key < KEYS; key++) {
        fprintf(to, "%s\"%s\":", key ? "," : "{", key_at(key)->name);
        write_value(to, setting_value(key, c, word));
    }
}

static void write_case(FILE *to, const case_result *r, const record_place *place)
{
    (void)place;
    json_keys(to, r->given);
    for (int i = 0; i < field_groups(); i++) write_group(to, field_group_at(i), r);
    fprintf(to, "}\n");
}

void json_word(FILE *to, const char *name, const char *word)
{
    fprintf(to, ",\"%s\":", name);
    write_text(to, word);
}

void json_number(FILE *to, const char *name, double x)
{
    fprintf(to, ",\"%s\":", name);
    write_real(to, x);
}

/* Writes what most scripts need: at most 600 bytes if the record's name has at most 100. */
static void write_brief(FILE *to, const case_result *r, const record_place *place)
{
    const bench_case *c = r->given;
    bool ran = r->ruling.verdict != VERDICT_SKIPPED;
    char layout[LAYOUT_TEXT];
    fprintf(to, "XGSW_RESULT {\"case\":%d,\"ranks\":%d", c->number, c->ranks);
    json_word(to, "workload", c->workload);
    json_word(to, "size", size_name(c->size));
    json_word(to, "precision", precision_name(c->precision));
    json_word(to, "backend", backend_name(c->backend));
    json_word(to, "layout", layout_text(&c->layout, layout));
    json_number(to, "mean_seconds", ran ? r->figures.mean_seconds : (double)NAN);
    json_number(to, "tokens_per_second", ran ? r->figures.tokens_per_second : (double)NAN);
    json_number(to, "recipe_mfu", r->figures.recipe_mfu);
    json_number(to, "residual", r->seen.check.done ? r->seen.check.residual : (double)NAN);
    json_word(to, "verdict", verdict_words[r->ruling.verdict]);
    fprintf(to, ",\"valid\":%s", r->ruling.valid ? "true" : "false");
    json_word(to, "acceptance", acceptance_words[r->ruling.acceptance]);
    json_word(to, "record", place->none ? "none" : place->record);
    fprintf(to, "}\n");
}

static void write_reasons(FILE *to, const case_result *r)
{
    fprintf(to, ",\"invalid_reasons\":[");
    for (int i = 0; i < r->ruling.invalids.count; i++) {
        if (i) fprintf(to, ",");
        write_text(to, r->ruling.invalids.list[i].sentence);
    }
    fprintf(to, "]");
}

void json_foresee(FILE *to, const foreseen_case *f)
{
    const bench_case *c = f->result->given;
    const recipe_row *row = recipe_origin(c, f->device);
    json_keys(to, c);
    for (int i = 0; i < field_groups(); i++)
        if (field_group_at(i)->of_case) write_group(to, field_group_at(i), f->result);
    json_word(to, "skipped", c->skipped);
    write_reasons(to, f->result);
    json_word(to, "expected", f->expected);
    json_word(to, "not_accepted", f->result->ruling.not_accepted);
    json_number(to, "memory_bytes", f->memory_bytes);
    json_number(to, "device_bytes", f->device_bytes);
    json_number(to, "steps_seconds", f->seconds);
    json_number(to, "messages", (double)f->messages);
    json_word(to, "published_gpu", row ? row->gpu : "");
    json_number(to, "published_tokens_per_second",
                row ? c->layout.copies * tokens_per_second(c->model.sequence, c->global_batch, row->step_seconds)
                    : (double)NAN);
    fprintf(to, "}\n");
}

typedef void case_writer(FILE *to, const case_result *r, const record_place *place);

/* Returns the output of `write` for a case; owned by the caller. */
static char *case_text(case_writer *write, const case_result *r, const record_place *place)
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    if (to) write(to, r, place);
    if (!to || fclose(to) != 0) FAIL("no memory for a case's JSON");
    return text;
}

/* ---- the file of --json ---- */

/* Returns whether both paths lead to the same existing file. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

FILE *json_open(const char *name, const char *deck_path, char *reason, size_t length)
{
    if (strcmp(name, "-") == 0) return stdout;
    if (is_same_file(name, deck_path)) return snprintf(reason, length, "%s is the deck: name another file", name), NULL;
    FILE *to = fopen(name, "w");
    if (!to) snprintf(reason, length, "cannot write %s: %s", name, strerror(errno));
    return to;
}

void json_close(FILE *to)
{
    if (!to || to == stdout) return; /* base/say.h checks errors of stdout */
    bool failed = ferror(to);
    if (fclose(to) != 0 || failed)
        FAIL_STATUS(STATUS_RECORD, "the file of --json or --timeline could not be written: %s", strerror(errno));
}

/* The record may not exist yet; its journal does. The files of --json and --timeline exist if they were opened. */
FILE *json_open_in_run(const char *name, const run_source *run, char *reason, size_t length)
{
    char journal[2 * PLACE_LENGTH];
    const char *other[] = { run->json, run->timeline };
    const record_place *place = run->place;
    snprintf(journal, sizeof journal, "%s.journal", name);
    if (!place->none && (is_same_file(journal, place->journal) || is_same_file(name, place->journal)))
        return snprintf(reason, length, "%s is the record: name another file", name), NULL;
    for (int i = 0; i < 2; i++)
        if (other[i] && other[i] != name && is_same_file(name, other[i]))
            return snprintf(reason, length, "%s is the file of --json or --timeline: name another file", name), NULL;
    return json_open(name, run->deck_name, reason, length);
}

static bool open_file(void **state, const run_source *run, char *reason, size_t length)
{
    *state = run->json ? json_open_in_run(run->json, run, reason, length) : NULL;
    return *state || !run->json;
}

static void write_file(void *state, const case_result *r)
{
    FILE *to = state;
    if (!to) return;
    char *text = case_text(write_case, r, NULL);
    if (fputs(text, to) < 0 || fflush(to) != 0)
        FAIL_STATUS(STATUS_RECORD, "the file of --json could not be written: %s", strerror(errno));
    free(text);
}

static void close_file(void *state, const run_source *run, const final_counts *n)
{
    (void)run, (void)n;
    json_close(state);
}

static bool open_line(void **state, const run_source *run, char *reason, size_t length)
{
    (void)reason, (void)length;
    *state = run->place;
    return true;
}

/* Uses one write, so that a stopping launcher prints the whole line or nothing. */
static void say_brief(void *state, const case_result *r)
{
    char *text = case_text(write_brief, r, state);
    text[strlen(text) - 1] = 0; /* the newline, after which say flushes */
    say("%s\n", text);
    free(text);
}

const sink json_sink = { .name = "--json", .open = open_file, .end = write_file, .close = close_file };
const sink line_sink = { .name = "XGSW_RESULT", .open = open_line, .end = say_brief };
