/* The journal: a file beside the record to which every step is appended before it is printed, so that a run that is
 * killed loses none. It holds, each as an entry with a check word,
 * - pieces of the record, as HDF5 files of their own: the provenance, deck included; a case's settings as it begins;
 * all of a case when it has ended;
 * - steps of the case that runs.
 * `validation/validate.py --recover` makes a record of it, and reads this layout (validation/validate/recover.py).
 * Numbers are as the machine stores them: little-endian, IEEE. It is written without fsync: what was written outlives
 * the process, not the machine. */
#pragma once
#include <stdint.h>

typedef enum { JOURNAL_PIECE = 1, JOURNAL_STEP = 2 } journal_kind;

/* Before each entry's bytes. check: the first hex digits of the SHA-256 of kind, bytes and what follows. */
enum { JOURNAL_CHECK = 16 };
typedef struct {
    uint32_t kind, bytes;
    char check[JOURNAL_CHECK];
} journal_entry;
/* Bytes of an entry: a case that has more, of many steps on many ranks, cannot be written. */
#define JOURNAL_ENTRY_MOST ((int64_t)UINT32_MAX)

/* What is printed of a step. number: seconds of rank 0's clock, loss, gradient norm, learning rate, then
 * routed_fact's. */
enum { STEP_NUMBERS = 9 };
typedef struct {
    int64_t case_number, step;
    double number[STEP_NUMBERS];
} journal_step;
