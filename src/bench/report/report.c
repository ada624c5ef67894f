/* The report, a sink: decides when each line is printed. Other files of this folder print the lines. --verbose adds the
 * fields of a case (field_lines.c) before its verdict, an Estimate in every case (otherwise only in the first that
 * trains), and in the title the devices of all ranks. */
#include "base/clock.h"
#include "base/memory.h"
#include "bench/facts/sink.h"
#include "bench/project/expected_lines.h"
#include "bench/report/case_lines.h"
#include "bench/report/check_lines.h"
#include "bench/report/checkpoint_lines.h"
#include "bench/report/field_lines.h"
#include "bench/report/number_lines.h"
#include "bench/report/progress.h"
#include "bench/report/step_lines.h"
#include "bench/report/summary.h"
#include "bench/report/verdict_lines.h"

typedef struct {
    bool verbose;
    bool estimated; /* the Estimate line was printed */
    double began;
    progress progress; /* of the current case */
    int rows;
    summary_row row[];
} report;

static bool report_open(void **state, const run_source *run, char *reason, size_t length)
{
    report *p = allocate(1, sizeof *p + (size_t)run->deck->cases * sizeof p->row[0], "lines of the summary");
    p->verbose = run->verbose;
    p->began = clock_seconds();
    p->progress = (progress){ .deck = run->deck, .terminal = run->terminal };
    *state = p;
    return true;
}

static void report_begin(void *state, const bench_case *c)
{
    (void)state;
    say_case(c);
}

static void report_check(void *state, const case_result *r)
{
    report *p = state;
    const check_result *c = &r->seen.check;
    p->progress.check_seconds = c->done ? c->seconds : 0.0;
    if (c->done) say_check(c);
}

static void report_step(void *state, const case_result *r, const step_now *now)
{
    report *p = state;
    progress_clear(&p->progress);
    say_step(r, now);
    if (p->verbose || !p->estimated) p->estimated |= progress_estimate(&p->progress, r, now);
    progress_say(&p->progress, r, now);
}

static void report_end(void *state, const case_result *r)
{
    report *p = state;
    bool ran = r->ruling.verdict != VERDICT_SKIPPED;
    progress_clear(&p->progress);
    p->row[p->rows++] = summary_row_of(r);
    if (ran) say_replay(r);
    if (r->seen.completed > r->given->warmup) say_numbers(r);
    if (ran) say_expected_steps(r), say_checkpoints(r);
    if (ran && p->verbose) say_fields(r);
    say_verdict(r);
    say_merit(r);
}

static void report_close(void *state, const run_source *run, const final_counts *n)
{
    report *p = state;
    if (n) {
        summary_print(run->deck, p->row, p->rows);
        say_end(run, n, clock_seconds() - p->began);
    }
    free(p);
}

const sink report_sink = { .name = "report",
                           .open = report_open,
                           .begin = report_begin,
                           .check = report_check,
                           .step = report_step,
                           .end = report_end,
                           .close = report_close };
