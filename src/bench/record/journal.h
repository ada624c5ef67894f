/* The journal: a file next to the record. Every step is appended before it is printed, so a killed run loses no step.
 * Its entries, each with a check word, are
 * - pieces of the record as separate HDF5 files: the provenance with the deck; settings of a case at its begin; results
 * of a case at its end;
 * - steps of the current case.
 * `validation/validate.py --recover` makes a record from it; validation/validate/recover.py reads this layout. Numbers
 * are stored as in memory: little-endian, IEEE. There is no fsync: entries survive the end of the process, but not a
 * crash of the machine. */
#pragma once
#include <stdint.h>

typedef enum { JOURNAL_PIECE = 1, JOURNAL_STEP = 2 } journal_kind;

/* Header of an entry. check: first hex digits of the SHA-256 of kind, bytes and data. */
enum { JOURNAL_CHECK = 16 };
typedef struct {
    uint32_t kind, bytes;
    char check[JOURNAL_CHECK];
} journal_entry;
/* Largest entry in bytes. A case with more bytes (many steps on many ranks) cannot be written. */
#define JOURNAL_ENTRY_MOST ((int64_t)UINT32_MAX)

/* Numbers of a step: seconds of rank 0's clock, loss, gradient norm, learning rate, then the routed_facts. */
enum { STEP_NUMBERS = 9 };
typedef struct {
    int64_t case_number, step;
    double number[STEP_NUMBERS];
} journal_step;
