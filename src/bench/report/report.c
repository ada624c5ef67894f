/* The report, read like HPL's, as a sink: which lines are said when. The other files of this folder have their words.
 */
#include "base/memory.h"
#include "bench/facts/sinks.h"
#include "bench/report/case_lines.h"
#include "bench/report/check_lines.h"
#include "bench/report/number_lines.h"
#include "bench/report/progress.h"
#include "bench/report/step_lines.h"
#include "bench/report/summary.h"
#include "bench/report/title_lines.h"
#include "bench/report/verdict_lines.h"

typedef struct {
    bool verbose;
    progress progress; /* of the case at hand */
    int rows;
    summary_row row[];
} report;

static bool report_open(void **state, const run_source *run, char *reason, size_t length)
{
    report *t = allocate(1, sizeof *t + (size_t)run->deck->cases * sizeof t->row[0], "lines of the summary");
    t->verbose = run->verbose;
    t->progress = (progress){ .deck = run->deck, .terminal = run->terminal };
    *state = t;
    return true;
}

static void report_run_begins(void *state, const run_source *run)
{
    (void)state;
    say_title(run);
}

static void report_case_begins(void *state, const bench_case *c)
{
    const report *t = state;
    say_case(c);
    if (t->verbose) say_case_details(c);
}

static void report_check_ends(void *state, const case_result *r)
{
    report *t = state;
    t->progress.check_seconds = r->check.done ? r->check.seconds : 0.0;
    if (!r->check.done) return;
    say_check(&r->check);
    if (t->verbose) say_check_details(r);
}

static void report_step_ends(void *state, const case_result *r, int64_t step)
{
    const report *t = state;
    progress_clear(&t->progress);
    say_step(r, step);
    if (t->verbose || r->given->number == 1) progress_estimate(&t->progress, r, step);
    progress_say(&t->progress, r, step);
}

static void report_case_ends(void *state, const case_result *r)
{
    report *t = state;
    progress_clear(&t->progress);
    t->row[t->rows++] = summary_row_of(r);
    if (r->verdict != VERDICT_SKIPPED) say_replay(r);
    if (r->verdict != VERDICT_SKIPPED && t->verbose) say_replay_details(r);
    if (r->completed > r->given->warmup) {
        say_numbers(r);
        if (t->verbose) say_number_details(r);
    }
    say_verdict(r);
}

static void report_run_ends(void *state, const run_source *run, const final_counts *n)
{
    const report *t = state;
    summary_print(run->deck, t->row, t->rows);
    say_end(run, n);
}

static void report_close(void *state) { free(state); }

const sink report_sink = { .name = "report",
                           .open = report_open,
                           .run_begins = report_run_begins,
                           .case_begins = report_case_begins,
                           .check_ends = report_check_ends,
                           .step_ends = report_step_ends,
                           .case_ends = report_case_ends,
                           .run_ends = report_run_ends,
                           .close = report_close };
