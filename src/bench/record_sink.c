/* The record as a sink: when it is written. It is rewritten whole, so a deck of many short cases is written when
 * writing costs at most a twentieth of the time since; the last case always writes. Until a case has run nothing is: an
 * older record stays. */
#include "base/clock.h"
#include "base/fail.h"
#include "bench/record/record.h"
#include "bench/sinks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMMIT_SHARE = 20 };
typedef struct {
    record *record;
    int64_t cases, planned;
    bool any_ran;
    double ended, seconds; /* of the last commit */
} commits;

static bool open_record(void **state, const run_source *run, char *reason, size_t length)
{
    char why[384];
    commits *c = calloc(1, sizeof *c);
    if (!c) FAIL("out of memory for the record");
    c->planned = run->deck->cases;
    c->record = record_open(run, why, sizeof why);
    *state = c;
    if (c->record) return true;
    free(c);
    snprintf(reason, length, "%s; record = PATH names another file, record = none keeps none", why);
    return false;
}

static void commit(commits *c)
{
    char reason[512];
    double begin = clock_seconds();
    if (!record_commit(c->record, reason, sizeof reason)) FAIL_STATUS(STATUS_RECORD, "record: %s", reason);
    c->ended = clock_seconds();
    c->seconds = c->ended - begin;
}

static void add_case(void *state, const case_result *r)
{
    commits *c = state;
    record_add(c->record, r);
    c->any_ran |= r->verdict != VERDICT_SKIPPED;
    bool last = ++c->cases == c->planned, due = clock_seconds() - c->ended >= COMMIT_SHARE * c->seconds;
    if (c->any_ran && (last || due)) commit(c);
}

static void close_record(void *state)
{
    commits *c = state;
    record_close(c->record);
    free(c);
}

const sink record_sink = { .name = "record", .open = open_record, .case_ends = add_case, .close = close_record };
