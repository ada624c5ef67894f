/* One JSON object per case for scripts. A run writes it with a sink (bench/facts/sink.h), a dry run with
 * json_foresee. */
#pragma once
#include "bench/facts/accept.h"
#include <stdio.h>

/* Results of a dry run. */
typedef struct {
    case_result *result;          /* the case, and reasons for NOT VALID and NOT ACCEPTED that are known before a run */
    char expected[EXPECTED_TEXT]; /* expected speed in words; empty if none */
    double memory_bytes;          /* of the rank that needs most; NaN if unknown */
    const char *device;
    double device_bytes;
    double seconds;   /* lower bound for all steps and repeats; NaN if unknown */
    int64_t messages; /* rank 0's messages in one step */
} foreseen_case;

/* Opens the file of --json for writing; "-" is stdout. On failure, or if the file is the deck, returns NULL and writes
 * a reason. */
FILE *json_open(const char *name, const char *deck_path, char *reason, size_t length);
/* Does the same in a run, where the file must not be the record or its journal. */
FILE *json_open_in_run(const char *name, const run_source *run, char *reason, size_t length);
/* Closes the file, unless it is stdout or NULL. Ends the program if writing failed. */
void json_close(FILE *to);
/* Writes the beginning of an object: all keys of the case with their values. */
void json_keys(FILE *to, const bench_case *c);
/* Writes one more member. A number that is not finite becomes null. */
void json_word(FILE *to, const char *name, const char *word);
void json_number(FILE *to, const char *name, double x);
/* Writes all keys of the case with their values, the settings that follow from them, and the forecast. */
void json_foresee(FILE *to, const foreseen_case *f);
