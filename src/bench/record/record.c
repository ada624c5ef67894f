/* The record keeps all finished cases, and writes the whole file at each commit. */
#include "bench/record/record.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/replace.h"
#include "bench/facts/accept.h"
#include "bench/facts/sink.h"
#include "bench/record/groups.h"
#include "bench/record/place.h"
#include "bench/record/provenance.h"
#include <stdio.h>

enum { RECORD_VERSION = 6, COMMIT_SHARE = 20 };

struct record {
    const run_source *run;
    const case_result **result;
    int64_t count;
    bool any_ran;
    double ended, seconds; /* end and duration of the last commit */
};

record *record_open(const run_source *run)
{
    record *r = allocate(1, sizeof *r, "the record");
    r->run = run;
    return r;
}

void record_add(record *r, const case_result *result)
{
    if (r->run->place->none) return;
    r->result = reallocate(r->result, r->count + 1, sizeof *r->result, "the cases of the record");
    r->result[r->count++] = result;
    r->any_ran |= result->ruling.verdict != VERDICT_SKIPPED;
}

/* h5web follows the attribute `default` from the root to the step times of the first case that ran. */
void record_write_root(writer *w, const case_result *const *result, int64_t count, int64_t planned)
{
    int64_t cases[VERDICTS] = { 0 };
    const case_result *shown = NULL;
    for (int64_t i = count - 1; i >= 0; i--) {
        cases[result[i]->ruling.verdict]++;
        if (result[i]->ruling.verdict != VERDICT_SKIPPED) shown = result[i];
    }
    writer_attribute(w, "/", "NX_class", datum_text("NXroot"));
    writer_attribute(w, "/", "creator", datum_text("xgsw"));
    writer_attribute(w, "/", "record_version", datum_integer(RECORD_VERSION));
    writer_attribute(w, "/", "cases_planned", datum_integer(planned));
    writer_attribute(w, "/", "passed", datum_integer(cases[VERDICT_PASSED]));
    writer_attribute(w, "/", "failed", datum_integer(cases[VERDICT_FAILED]));
    writer_attribute(w, "/", "skipped", datum_integer(cases[VERDICT_SKIPPED]));
    writer_attribute(w, "/", "interrupted", datum_integer(cases[VERDICT_INTERRUPTED]));
    if (shown) writer_attribute(w, "/", "default", datum_text(case_group(shown->given).path + 1));
}

bool record_commit(record *r, char *reason, size_t length)
{
    if (r->run->place->none) return true;
    writer *w = writer_open();
    record_write_root(w, r->result, r->count, r->run->deck->cases);
    provenance_write(r->run->provenance, w);
    for (int64_t i = 0; i < r->count; i++) case_write(w, r->result[i]);
    void *bytes;
    size_t size;
    if (!writer_close(w, &bytes, &size, reason, length)) return false;
    bool written = place_keep_earlier(r->run->place, reason, length) &&
                   replace_file(r->run->place->record, bytes, size, reason, length);
    if (written) sha256_of(bytes, size, r->run->place->sha256);
    free(bytes);
    return written;
}

void record_close(record *r)
{
    if (r) free(r->result);
    free(r);
}

static bool open_record(void **state, const run_source *run, char *reason, size_t length)
{
    (void)reason, (void)length;
    *state = record_open(run);
    return true;
}

/* Each commit writes the whole file again, so it waits until the time since the last commit is 20 times its duration.
 * The last case and a stopped case always commit. Until then the journal has the missing cases. An older record stays
 * until a case has run. */
static void add_case(void *state, const case_result *result)
{
    char reason[2048];
    record *r = state;
    record_add(r, result);
    double begin = clock_seconds();
    bool due = r->count == r->run->deck->cases || result->seen.stopped || begin - r->ended >= COMMIT_SHARE * r->seconds;
    if (!r->any_ran || !due) return;
    if (!record_commit(r, reason, sizeof reason)) FAIL_STATUS(STATUS_RECORD, "record: %s", reason);
    r->ended = clock_seconds();
    r->seconds = r->ended - begin;
}

/* If no case ran, an earlier record and its verdict stay. */
static void write_verdict(const run_source *run, const final_counts *n)
{
    char line[ACCEPT_LINE], text[ACCEPT_LINE + 2 * PLACE_LENGTH], reason[2048], path[PLACE_LENGTH + PLACE_END];
    const record_place *p = run->place;
    if (p->none || !p->sha256[0]) return;
    int length = snprintf(text, sizeof text, "%s  %s\n%s\n", p->sha256, p->record, accept_line(n, line));
    place_end(path, p->record, ".verdict");
    if (!replace_file(path, text, (size_t)length, reason, sizeof reason))
        FAIL_STATUS(STATUS_RECORD, "verdict: %s", reason);
}

static void close_record(void *state, const run_source *run, const final_counts *n)
{
    if (n) write_verdict(run, n);
    record_close(state);
}

const sink record_sink = { .name = "record", .open = open_record, .end = add_case, .close = close_record };
