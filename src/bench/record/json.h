/* One object a case, for scripts: of a run by its sink (bench/facts/sink.h), of a dry run here. */
#pragma once
#include "bench/facts/accept.h"
#include <stdio.h>

/* What a dry run knows of a case. */
typedef struct {
    case_result *result;          /* the case, and why it is NOT VALID and NOT ACCEPTED whatever it computes */
    char expected[EXPECTED_TEXT]; /* the speed that the deck expects, in words; empty: none */
    double memory_bytes;          /* of the rank that needs most; NaN: not known */
    const char *device;
    double device_bytes;
    double seconds;   /* of all its steps and repeats, at least; NaN: not known */
    int64_t messages; /* of rank 0 in a step */
} foreseen_case;

/* Opens the file of --json for writing; "-" is stdout. NULL and a sentence in reason: it cannot be written, or is the
 * deck. */
FILE *json_open(const char *name, const char *deck_path, char *reason, size_t length);
/* Likewise in a run, where the name may not be that of the record's journal either. */
FILE *json_open_in_run(const char *name, const run_source *run, char *reason, size_t length);
/* Closes it unless it is stdout or NULL, and fails if it could not be written. */
void json_close(FILE *to);
/* Writes the beginning of an object: all keys of the case with the values that it uses. */
void json_keys(FILE *to, const bench_case *c);
/* Writes one more member of an object. A number that is not finite is null. */
void json_word(FILE *to, const char *name, const char *word);
void json_number(FILE *to, const char *name, double x);
/* Writes all keys of the case with the values that it uses, what follows from them, and the forecast. */
void json_foresee(FILE *to, const foreseen_case *f);
