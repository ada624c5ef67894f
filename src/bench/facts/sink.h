/* Sinks: receivers of the events of a run. They are the journal, the report, the record, the files of --json and
 * --timeline, and the line XGSW_RESULT. A sink has four functions for a case (begin, check, step, end) and two for the
 * run; a function that it does not need is NULL. Only rank 0 has sinks. */
#pragma once
#include "bench/facts/result.h"
#include "bench/facts/run_source.h"

enum { FINAL_REASON = ACCEPTANCE_REASON + 32 };
typedef struct {
    int passed, failed, skipped, interrupted, valid;
    int unchecked;           /* PASSED with check = off */
    int expecting;           /* cases with an expected speed */
    int unaccepted, invalid; /* cases NOT ACCEPTED, and cases NOT VALID, that were not stopped */
    int refused;             /* SKIPPED because the checkpoint could not be loaded */
    bool stopped;            /* stopped early: a case was interrupted or did not begin */
    bool strict;             /* a case that is SKIPPED or NOT VALID is a failure */
    /* the first case of each kind and its reason; empty if none */
    char first_failed[FINAL_REASON], first_invalid[FINAL_REASON], first_skipped[FINAL_REASON];
    char skipped_cases[64]; /* their numbers, "2, 5" */
    char not_accepted[FINAL_REASON], stopped_by[FINAL_REASON], unsaved[FINAL_REASON];
} final_counts;

/* A completed step; numbers start at 0. */
typedef struct {
    int64_t step;
    double spent_seconds; /* total of all steps so far, by rank 0's clock */
    double soak_seconds;  /* remaining seconds of a soak; 0 if it is none */
} step_now;

typedef struct {
    const char *name;
    /* Opens the sink. On failure returns false and writes a reason; then the run is refused. */
    bool (*open)(void **state, const run_source *run, char *reason, size_t length);
    void (*begin)(void *state, const bench_case *c);
    void (*check)(void *state, const case_result *r); /* the check is done; the first step may take long */
    void (*step)(void *state, const case_result *r, const step_now *now);
    void (*end)(void *state, const case_result *r);                           /* a case ends, or is skipped */
    void (*close)(void *state, const run_source *run, const final_counts *n); /* n is NULL if the run is refused */
} sink;

extern const sink journal_sink, report_sink, record_sink, json_sink, timeline_sink, line_sink;

enum { SINKS = 6 };
typedef struct {
    const run_source *run;
    int open;
    void *state[SINKS];
} sinks;

/* Opens all sinks, on rank 0. If it returns false, it has printed the reason on stderr. */
bool sinks_open(sinks *s, const run_source *run);
/* Pass an event to all sinks. */
void sinks_begin(const sinks *s, const bench_case *c);
void sinks_check(const sinks *s, const case_result *r);
void sinks_step(const sinks *s, const case_result *r, const step_now *now);
void sinks_end(const sinks *s, const case_result *r);
void sinks_close(const sinks *s, const final_counts *n);
