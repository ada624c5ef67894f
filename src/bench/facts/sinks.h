/* Who is told what happens in a run: the journal, the report, the record, the file of --json, the line XGSW_RESULT. A
 * sink is a row of functions; what it does not care for stays NULL. Rank 0 has sinks, the other ranks have none. */
#pragma once
#include "bench/facts/result.h"
#include "bench/facts/run_source.h"

enum { FINAL_REASON = ACCEPTANCE_REASON + 32 };
typedef struct {
    int passed, failed, skipped, interrupted, valid;
    int unchecked;       /* of those that PASSED: check = off */
    int expecting;       /* cases of which the deck expects a speed */
    int missed, lacking; /* that are not accepted, that are not VALID; without those that a stop took */
    bool stopped;        /* before its end: a case was interrupted, or not begun */
    bool strict;         /* a case that is not VALID is a failure */
    /* the first case that is so, and why; empty: none is */
    char first_failed[FINAL_REASON], first_invalid[FINAL_REASON], first_skipped[FINAL_REASON];
    char not_accepted[FINAL_REASON], stopped_by[FINAL_REASON];
} final_counts;

typedef struct {
    const char *name;
    /* Before anything else. False and a sentence in `reason`: it cannot be opened, and the run is refused. */
    bool (*open)(void **state, const run_source *run, char *reason, size_t length);
    void (*run_begins)(void *state, const run_source *run);
    void (*case_begins)(void *state, const bench_case *c);
    void (*check_ends)(void *state, const case_result *r);
    void (*step_ends)(void *state, const case_result *r, int64_t step);
    void (*case_ends)(void *state, const case_result *r); /* of a skipped case, too */
    void (*run_ends)(void *state, const run_source *run, const final_counts *n);
    void (*close)(void *state);
} sink;

extern const sink journal_sink, report_sink, record_sink, json_sink, line_sink;

enum { SINKS = 5 };
typedef struct {
    int open;
    void *state[SINKS];
} sinks;

/* Of rank 0. False: said on stderr. */
bool sinks_open(sinks *s, const run_source *run);
void sinks_close(sinks *s);
/* Each tells its event to all sinks. */
void sinks_run_begins(const sinks *s, const run_source *run);
void sinks_case_begins(const sinks *s, const bench_case *c);
void sinks_check_ends(const sinks *s, const case_result *r);
void sinks_step_ends(const sinks *s, const case_result *r, int64_t step);
void sinks_case_ends(const sinks *s, const case_result *r);
void sinks_run_ends(const sinks *s, const run_source *run, const final_counts *n);
