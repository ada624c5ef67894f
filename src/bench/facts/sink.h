/* Who is told what happens in a run: the journal, the report, the record, the files of --json and --timeline, the line
 * XGSW_RESULT. A sink has four functions for a case, begin, check, step and end, and two for the run; what it does not
 * need is NULL. Rank 0 has sinks, the other ranks have none. */
#pragma once
#include "bench/facts/result.h"
#include "bench/facts/run_source.h"

enum { FINAL_REASON = ACCEPTANCE_REASON + 32 };
typedef struct {
    int passed, failed, skipped, interrupted, valid;
    int unchecked;       /* of those that PASSED: check = off */
    int expecting;       /* cases of which the deck expects a speed */
    int missed, lacking; /* that are not accepted, that are not VALID; without those that a stop took */
    int refused;         /* of those that were SKIPPED: their checkpoint cannot be loaded */
    bool stopped;        /* before its end: a case was interrupted, or not begun */
    bool strict;         /* a case that is not VALID is a failure */
    /* the first case that is so, and why; empty: none is */
    char first_failed[FINAL_REASON], first_invalid[FINAL_REASON], first_skipped[FINAL_REASON];
    char not_accepted[FINAL_REASON], stopped_by[FINAL_REASON], unsaved[FINAL_REASON];
} final_counts;

/* A step that has ended, from 0. */
typedef struct {
    int64_t step;
    double spent_seconds; /* in all steps so far, by rank 0's clock */
    double soak_seconds;  /* until a soak may end; 0: it is none */
} step_now;

typedef struct {
    const char *name;
    /* Before anything else. False and a sentence in `reason`: it cannot be opened, and the run is refused. */
    bool (*open)(void **state, const run_source *run, char *reason, size_t length);
    void (*begin)(void *state, const bench_case *c);  /* a case begins */
    void (*check)(void *state, const case_result *r); /* its check has ended; the first step may take long */
    void (*step)(void *state, const case_result *r, const step_now *now);
    void (*end)(void *state, const case_result *r);                           /* a case ends; of a skipped one, too */
    void (*close)(void *state, const run_source *run, const final_counts *n); /* n: NULL if the run is refused */
} sink;

extern const sink journal_sink, report_sink, record_sink, json_sink, timeline_sink, line_sink;

enum { SINKS = 6 };
typedef struct {
    const run_source *run;
    int open;
    void *state[SINKS];
} sinks;

/* Of rank 0. False: said on stderr. */
bool sinks_open(sinks *s, const run_source *run);
/* Each tells its event to all sinks. */
void sinks_begin(const sinks *s, const bench_case *c);
void sinks_check(const sinks *s, const case_result *r);
void sinks_step(const sinks *s, const case_result *r, const step_now *now);
void sinks_end(const sinks *s, const case_result *r);
void sinks_close(const sinks *s, const final_counts *n);
