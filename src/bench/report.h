/* The report, read like HPL's: rank 0 prints, the others are silent. */
#pragma once
#include "bench/result.h"
#include "plan/deck/deck.h"

typedef struct {
    int passed, failed, skipped, valid;
} final_counts;

/* ranks, threads: of the run; libraries: what it computes and talks with. */
void report_banner(const deck *d, const char *deck_name, int ranks, int threads, const char *products, const char *mpi);
/* Of a run on devices: a line a rank, up to some; device, hosts: of all ranks, on rank 0. */
void report_devices(const machine_device *device, const char *hosts, int ranks, const char *library);
/* Settings of the case, one block. */
void report_case_begins(const bench_case *c);
/* The check's residual line; nothing if the check was not done. */
void report_check(const check_result *k, const char *when);
/* What the shadow saw, if anything. */
void report_shadow(const shadow_report *s);
/* One aligned line of a finished step, with the markers that users of the recipes grep for, and the remaining time. */
void report_step(const case_result *r, int64_t step);
/* The summary line, verdict and reasons, and the line XGSW_RESULT. */
void report_case_ends(const case_result *r);
void report_skipped(const bench_case *c, const char *reason);
void report_end(const final_counts *n, const char *record);

/* "XGSW_RESULT {...}": one line of JSON, NaN as null. */
void report_json(const case_result *r);
void report_json_skipped(const bench_case *c, const char *reason);
